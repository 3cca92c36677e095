"""A unit's word vectors are multiplied by `keep`, so they become 0 where it is erased; positions, token types and
attention do not change (Zhao & Aletras, 2023).
"""

from dataclasses import dataclass, replace

from torch import Tensor

from troth.core.types import Rows
from troth.maskings import Masking
from troth.models import TextClassifier


@dataclass(frozen=True)
class Zero(Masking):
    level = "embeddings"
    formula = "kᵢ · xᵢ"
    pitfalls = "A word vector of zeros is no word that the model has read; its position and type stay."

    def erase(self, rows: Rows, keep: Tensor, model: TextClassifier) -> Rows:
        vectors = rows.vectors(model)
        return replace(rows, embeddings=vectors * keep[..., None].to(vectors.dtype))
