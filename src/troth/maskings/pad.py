"""A unit's tokens become the padding token, which is still attended to; positions do not change (as in the released
code of Chrysostomou & Aletras, 2021).
"""

from dataclasses import dataclass

from torch import Tensor

from troth.core.types import Rows
from troth.maskings import Masking, put_token
from troth.models import TextClassifier


@dataclass(frozen=True)
class Pad(Masking):
    level = "ids"
    formula = "token i becomes [PAD] where kᵢ = 0"
    pitfalls = "The padding token is attended to here, which most models never met in training."
    whole = True

    def erase(self, rows: Rows, keep: Tensor, model: TextClassifier) -> Rows:
        return put_token(rows, keep == 0, model.pad_id, model)
