"""A unit's word vectors become 0 (a fraction scales them); positions, token types and attention stay."""

from dataclasses import dataclass, replace

from torch import Tensor

from troth.core.types import Rows
from troth.maskings import Masking
from troth.models import TextClassifier


@dataclass(frozen=True)
class Zero(Masking):
    level = "embeddings"

    def erase(self, rows: Rows, keep: Tensor, model: TextClassifier) -> Rows:
        vectors = rows.vectors(model)
        return replace(rows, embeddings=vectors * keep[..., None].to(vectors.dtype))
