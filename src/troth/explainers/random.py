"""A uniform random number, drawn again for each new input: the baseline for every explanation."""

from collections.abc import Sequence
from dataclasses import dataclass

from troth.core import draws
from troth.core.types import Attribution, Question
from troth.engine.routines import Routine
from troth.explainers import Explainer


@dataclass(frozen=True)
class Random(Explainer):
    signed = False
    asks_model = False
    formula = "sᵢ from the uniform distribution on [0, 1)"
    pitfalls = "Not an explanation, but the baseline that every explanation has to beat."

    def ask(self, questions: Sequence[Question]) -> Routine[list[Attribution]]:
        yield from ()
        widest = max((question.n_units for question in questions), default=0)
        scores = draws.first_uniforms([question.draws("random").key for question in questions], widest)
        return [
            Attribution(question, scores[row, : question.n_units], signed=self.signed)
            for row, question in enumerate(questions)
        ]
