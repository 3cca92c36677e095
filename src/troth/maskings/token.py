"""A unit's tokens become a given token of the vocabulary, `token(id=0)`; length and positions do not change (as in the
released code of Zhao & Aletras, 2023).

That code erases with id 0, whatever it means: [PAD] in BERT, <s> in RoBERTa.
"""

from dataclasses import dataclass

from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import Rows
from troth.maskings import Masking, put_token
from troth.models import TextClassifier


@dataclass(frozen=True)
class Token(Masking):
    level = "ids"
    formula = "token i becomes the token `id` where kᵢ = 0"
    pitfalls = "The token that stands in says something of its own."
    whole = True

    id: int = 0

    def erase(self, rows: Rows, keep: Tensor, model: TextClassifier) -> Rows:
        size = len(model.embedding_matrix)
        if not 0 <= self.id < size:
            raise TrothError(f"token: {model.name} has the ids 0 to {size - 1}; use one of them, not {self.id}")
        return put_token(rows, keep == 0, self.id, model)
