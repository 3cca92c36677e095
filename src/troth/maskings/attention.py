"""Every layer attends less to a unit's tokens: log keep is added to their attention logits (Zhao & Aletras, 2023,
appendix C: the continuous attention mask).

A token's attention is multiplied by `keep` before it is normalized; at 0 nobody attends to it, itself included. Vectors
and positions stay. A fraction in transformers' own two-dimensional mask would do nothing.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from troth.core.types import Rows
from troth.maskings import Masking
from troth.models import TextClassifier


@dataclass(frozen=True)
class Attention(Masking):
    level = "attention"
    formula = "αᵢ ∝ kᵢ · exp(logitᵢ) in every layer"
    pitfalls = "A head that averages over all tokens still reads the unit's own vector. Needs a transformer."

    def erase(self, rows: Rows, keep: Tensor, model: TextClassifier) -> Rows:
        # log 0 would make a row of nothing but −inf NaN; the lowest number there is does the same.
        logits = keep.log().clamp(min=torch.finfo(keep.dtype).min)
        return replace(rows, attention=logits if rows.attention is None else rows.attention + logits)
