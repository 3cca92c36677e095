"""Each element of a unit's vectors is kept with probability `keep` and is otherwise set to 0 (Zhao & Aletras, 2023).

Vectors are not rescaled. The paper drops elements of the token's word vector; the released code drops elements of the
embedding layer's output (word + position + type, after LayerNorm): `at="embedding_output"`.
"""

from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from troth.core import draws
from troth.core.types import Rows
from troth.maskings import Masking
from troth.models import TextClassifier


@dataclass(frozen=True)
class Soft(Masking):
    level = "embeddings"
    formula = "xᵢ ⊙ d,  each element of d is 1 with probability kᵢ, else 0"
    pitfalls = "Draws at random, and no vector with holes is the vector of a word."
    stochastic = True

    at: Literal["word", "embedding_output"] = "word"

    def erase(self, rows: Rows, keep: Tensor, model: TextClassifier) -> Rows:
        size = model.embedding_size if self.at == "word" else model.embedding_output_size
        # Element j of token i always has the number i * size + j, whatever the padding of the batch.
        drawn = draws.uniforms(rows.keys, rows.ids.shape[1] * size).view(*rows.ids.shape, size)
        stays = drawn < keep[..., None]
        if self.at == "embedding_output":
            return replace(rows, output_factor=stays.to(model.dtype))
        vectors = rows.vectors(model)
        return replace(rows, embeddings=vectors * stays.to(vectors.dtype))
