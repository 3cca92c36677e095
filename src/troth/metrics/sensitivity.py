"""How much the explanation can change, relative to its size, when every word vector changes slightly: the largest
change observed (max-sensitivity; Yeh et al., 2019).

The score is the largest ‖s(y) − s(x)‖ / ‖s(x)‖ over `samples` inputs y, in which each element of a unit's word vectors
changes by a uniform number of at most `radius` times the vector's root mean square. Yeh et al. do not divide by ‖s(x)‖,
which is needed to compare methods of different scale.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from troth.core import draws
from troth.core.errors import TrothError
from troth.core.types import Attribution, Question, Rows, Score
from troth.engine.routines import Routine, per_text
from troth.maskings import Masking
from troth.metrics import ExplainOne, Metric, undefined
from troth.models import TextClassifier


@dataclass(frozen=True)
class Noise(Masking):
    """Adds noise instead of erasing: moves the word vectors of every unit, equally in all rows of one example."""

    level = "embeddings"

    radius: float
    number: int
    seed: int

    def erase(self, rows: Rows, keep: Tensor, model: TextClassifier) -> Rows:
        vectors = rows.vectors(model)
        length, size = vectors.shape[1:]
        ids = [encoding.example.id for encoding in rows.encodings]
        keys = {example: draws.key(self.seed, example, "sensitivity", self.number) for example in set(ids)}
        of_row = torch.tensor([keys[example] for example in ids], device=vectors.device)
        moves = 2 * draws.uniforms(of_row, length * size).view_as(vectors) - 1
        scale = vectors.float().square().mean(-1, keepdim=True).sqrt() * (rows.units >= 0)[..., None]
        return replace(rows, embeddings=vectors + (self.radius * scale * moves).to(vectors.dtype))


@dataclass(frozen=True)
class Sensitivity(Metric):
    higher_is_better = False
    measures = "stability"
    explains_again = True
    bounds = "[0, ∞)"
    formula = "max over y near x of ‖s(y) − s(x)‖ / ‖s(x)‖"
    pitfalls = (
        "Measures stability, not faithfulness: a method that ignores the model scores 0. The randomness of a method "
        "that samples counts, too."
    )

    samples: int = 5
    radius: float = 0.02

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise TrothError(f"sensitivity: samples must be at least 1, not {self.samples}")
        if not self.radius > 0:
            raise TrothError(f"sensitivity: radius must be above 0, not {self.radius}")

    def explanations(self) -> int:
        return self.samples

    @per_text
    def ask(self, question: Question, attribution: Attribution, explain: ExplainOne) -> Routine[Score]:
        if question.base is not None:
            return undefined("part of the input is erased already")
        scores = attribution.scores.astype(np.float64)
        size = np.linalg.norm(scores)
        if size == 0:
            return undefined("all scores are 0")
        changes = []
        for number in range(self.samples):
            moved = question.erased(question.left, Noise(self.radius, number, question.seed))
            again = yield from explain(moved)
            changes.append(float(np.linalg.norm(again.scores - scores) / size))
        return Score(max(changes), {"changes": changes})
