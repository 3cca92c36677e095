"""A uniform random number: the yardstick that every explanation has to beat; fresh at every call on a new input."""

from dataclasses import dataclass

from troth.core.types import Attribution, Question
from troth.engine.looks import Ask
from troth.explainers import Explainer


@dataclass(frozen=True)
class Random(Explainer):
    signed = False
    asks_model = False
    formula = "sᵢ from the uniform distribution on [0, 1)"
    pitfalls = "Not an explanation: what every explanation has to beat."

    def ask(self, question: Question) -> Ask[Attribution]:
        yield from ()
        scores = question.draws("random").uniforms(1, question.n_units)[0].numpy()
        return Attribution(question, scores, signed=self.signed)
