"""A unit's word vectors get Gaussian noise, which grows as less of the unit is kept (Zhao & Aletras, 2023, appendix C).

With λ = 1 − keep, every element becomes x + γ·λ·x with γ ~ N(0, variance) (equation 7, `form="product"`), or x + γ·x
with γ ~ N(0, variance · λ) (equation 8, `form="variance"`; the paper relates the variance to the score without giving a
formula). No unit is ever fully erased. The paper tunes the variance among 0.005, 0.01, 0.05, 0.1, 0.5, 1 and 2.
"""

from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from troth.core import draws
from troth.core.errors import TrothError
from troth.core.types import Rows
from troth.maskings import Masking
from troth.models import TextClassifier


@dataclass(frozen=True)
class Gaussian(Masking):
    level = "embeddings"
    formula = "xᵢ + (1 − kᵢ) · γ ⊙ xᵢ,  each element of γ from N(0, variance)"
    pitfalls = "Never erases wholly, and draws at random: another seed gives other numbers."
    stochastic = True

    variance: float = 1.0
    form: Literal["product", "variance"] = "product"

    def __post_init__(self) -> None:
        if not self.variance > 0:
            raise TrothError(f"gaussian: variance must be above 0, not {self.variance}")

    def erase(self, rows: Rows, keep: Tensor, model: TextClassifier) -> Rows:
        vectors = rows.vectors(model)
        length, size = vectors.shape[1:]
        # Element j of token i always has the number i * size + j, whatever the padding of the batch.
        noise = draws.normals(rows.keys, length * size).view_as(vectors)
        missing = (1 - keep).clamp(min=0)
        spread = missing if self.form == "product" else missing.sqrt()
        factor = 1 + self.variance**0.5 * spread[..., None] * noise
        return replace(rows, embeddings=vectors * factor.to(vectors.dtype))
