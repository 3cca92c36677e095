"""Every layer attends less to a unit's tokens: log keep is added to their attention logits (Zhao & Aletras, 2023,
appendix C: the continuous attention mask).

A token's attention is multiplied by `keep` before it is normalized; at 0 no token attends to it, not even itself.
Vectors and positions do not change. A fraction in the two-dimensional mask of transformers would have no effect.
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
        # log 0 would turn a row of only −inf into NaN; the lowest finite number has the same effect.
        logits = keep.log().clamp(min=torch.finfo(keep.dtype).min)
        return replace(rows, attention=logits if rows.attention is None else rows.attention + logits)
