"""A unit's tokens are written again by a masked language model that reads what is kept; answers are averaged over
`draws` such texts (Kim et al., 2020, input marginalization; Harbecke & Alt, 2020).

The classifier always reads a whole text, which a model that was never trained on masked texts knows. The mean
probability over draws estimates Σ p(class | x̃) · p(x̃ | what is kept). Kim et al. sum over the likely tokens of one
position and Harbecke & Alt sample it; several positions are sampled here in `rounds`: every round fills in each
`rounds`-th erased token, given what is kept and what earlier rounds have written, so neighbors can agree. One round
draws all tokens independently of each other. By default the language model is the one that the classifier was
fine-tuned from, where its head was kept.

A draw depends on the seed, the text, the token's position and the candidate word only (the Gumbel-max trick), so two
rows that keep nearly the same are filled in nearly the same way, and their difference varies less.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from troth.core import draws as random_draws
from troth.core.errors import TrothError
from troth.core.types import Rows, spread
from troth.maskings import Masking, put_token
from troth.models._masked_lm import masked_lm

if TYPE_CHECKING:
    from troth.models import TextClassifier


@dataclass(frozen=True)
class Infill(Masking):
    level = "ids"
    formula = "token i is drawn from p(· | kept tokens) where kᵢ = 0; p(class) is the mean over draws"
    pitfalls = (
        "A word that its context gives away is written again, so erasing it changes nothing. Costs `draws` passes of "
        "the classifier and up to `draws` · `rounds` of the language model per row."
    )
    whole = True

    model: str | None = None  # a folder or a hub name; None = what the classifier was fine-tuned from
    draws: int = 4
    rounds: int = 4

    def __post_init__(self) -> None:
        for name in ("draws", "rounds"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise TrothError(f"infill: {name} must be a whole number of 1 or more, not {value}")

    def files(self, model: TextClassifier) -> str | None:
        return masked_lm(self.model, model).fingerprint

    def erase(self, rows: Rows, keep: Tensor, model: TextClassifier) -> Rows:
        masked = masked_lm(self.model, model)
        where = (keep == 0) & (rows.units >= 0)  # [rows, length]
        hidden = where | _erased_in_vectors(rows)
        ids = rows.ids.masked_fill(hidden, masked.mask_id)
        turns = (where.cumsum(1) - 1) % self.rounds  # neighbors in different rounds
        passes = 0
        for turn in range(self.rounds):
            now = where & (turns == turn)
            passes += int(now.any(1).sum())
            written = ids.clone()
            for row, position, logits in masked.logits(ids, rows.real, rows.token_types, now):
                written[row, position] = _drawn(logits, random_draws.row_keys(rows.keys[row], position))
            ids = written
        erased = put_token(rows, where, ids, model)
        return replace(erased, side_model_rows=rows.side_model_rows + passes)


def _erased_in_vectors(rows: Rows) -> Tensor:
    """[rows, length] tokens whose ids are still there though an earlier masking has erased their vectors."""
    changed = rows.embeddings is not None or rows.attention is not None or rows.output_factor is not None
    if not changed or rows.kept is None:
        return torch.zeros_like(rows.real)
    return spread(rows.kept, rows.units) < 1


def _drawn(logits: Tensor, keys: Tensor) -> Tensor:
    """One token for each place, with its softmax probability. [places, vocabulary], [places] -> [places]"""
    # argmax of logit + Gumbel noise; a uniform number of 0 gives −inf. Another batch changes logits by 1e-6, so a draw
    # changes in one case of a million; with the cumulative distribution it would be far more.
    noise = -(-random_draws.uniforms(keys, logits.shape[1]).log()).log()
    return (logits + noise).argmax(-1)
