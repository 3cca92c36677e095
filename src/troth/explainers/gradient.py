"""How much the class's value would change if the token were swapped for another: the norm of its gradient with respect
to the one-hot input, over the vocabulary (Baehrens et al., 2010; Li et al., 2016a).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from troth.core.types import Attribution, Question
from troth.engine.looks import Ask, Look, Of, keep_all
from troth.engine.looks import Gradient as GradientWant
from troth.engine.many import Answers, AskMany, whole_inputs
from troth.explainers import Explainer


@dataclass(frozen=True)
class Gradient(Explainer):
    signed = False
    formula = "sᵢ = ‖∂f / ∂eᵢ‖₂,  eᵢ the one-hot vector of token i"
    pitfalls = "Says how much a token could matter, not which way; where the model is saturated, gradients vanish."

    norm: Literal["l2", "l1"] = "l2"
    of: Of = "logit"

    def reads(self) -> GradientWant:
        return self._want

    @cached_property
    def _want(self) -> GradientWant:
        return GradientWant(of=self.of, l1=self.norm == "l1")

    def ask(self, question: Question) -> Ask[Attribution]:
        answer = yield Look(question, keep_all(question), want=self.reads())
        rest = float(answer.rest[self.norm][0])
        return Attribution(question, answer.units[self.norm][0].numpy(), signed=self.signed, rest=rest)

    def ask_many(self, questions: Sequence[Question], whole: Answers | None) -> AskMany[list[Attribution]]:
        answers = whole or (yield whole_inputs(questions, self.reads()))
        scores, rest = answers.units[self.norm].numpy(), answers.rest[self.norm].tolist()
        return [
            Attribution(question, scores[row, : question.n_units], signed=self.signed, rest=rest[row])
            for row, question in enumerate(questions)
        ]
