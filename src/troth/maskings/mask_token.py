"""A unit's tokens become the model's mask token; length and positions stay
(Madsen et al., 2022; Madsen et al., 2024).
"""

from dataclasses import dataclass

from torch import Tensor

from troth.core.types import Rows
from troth.maskings import Masking, mask_of, put_token
from troth.models import TextClassifier


@dataclass(frozen=True)
class MaskToken(Masking):
    level = "ids"
    puts_mask = True
    formula = "token i becomes [MASK] where kᵢ = 0"
    pitfalls = "Only a model that was trained on masked texts knows what the mask means: see troth check."
    whole = True

    def erase(self, rows: Rows, keep: Tensor, model: TextClassifier) -> Rows:
        return put_token(rows, keep == 0, mask_of(model), model)
