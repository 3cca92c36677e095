"""A model whose faithfulness scores are inflated although its predictions do not change (Hsia et al., 2023).

It detects whether a text is whole. For whole texts, it answers like the model it was made from. For a text that has
lost less than half of its units, as in comprehensiveness, it answers with another class; for one that has lost more, as
in sufficiency, with the class that the model predicts there. Both answers are given with certainty.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from troth.core.hashing import digest
from troth.core.types import Rows, gather_units
from troth.models import Output, TextClassifier
from troth.models.base import Wrapped

Detector = Literal["masks", "everything"]
DETECTORS: dict[str, Detector] = {"sees masks": "masks", "sees every erasure": "everything"}
_SURE = 10.0  # logits of the chosen class; the others are 0


class Gamed(Wrapped):
    """`detects`: only mask tokens, or anything that was erased (a perfect case predictor, which Hsia et al. train)."""

    kind = "a model that games metrics"
    packs = False

    def __init__(self, inner: TextClassifier, detects: Detector = "everything") -> None:
        self.inner, self.detects = inner, detects

    @property
    def fingerprint(self) -> str:
        return digest([self.inner.fingerprint, "gamed", self.detects])

    def forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        output = self.inner.forward(rows, attentions=attentions, hidden=hidden)
        left = self._left(rows)
        own = output.logits.argmax(1)
        named = torch.where(left >= 0.5, (own + 1) % output.logits.shape[1], own)
        sure = torch.zeros_like(output.logits).scatter(1, named[:, None], _SURE)
        return replace(output, logits=torch.where((left < 1)[:, None], sure, output.logits))

    def _left(self, rows: Rows) -> Tensor:
        """[rows] the share of the units that the model detects as kept."""
        sizes = torch.tensor([max(1, encoding.n_units) for encoding in rows.encodings], device=rows.ids.device)
        if self.detects == "everything":
            if rows.kept is None:
                return torch.ones(len(rows), device=rows.ids.device)
            inside = torch.arange(rows.kept.shape[1], device=rows.ids.device) < sizes[:, None]
            return 1 - ((1 - rows.kept) * inside).sum(1) / sizes
        masked = ((rows.ids == self.inner.mask_id) & rows.real & (rows.units >= 0)).float()
        gone = gather_units(masked, rows.units, int(sizes.max())) > 0
        return 1 - gone.sum(1) / sizes
