"""What the class's value owes to a token's word vector if the model were linear there: gradient · vector
(Kindermans et al., 2016).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from troth.core.types import Attribution, Question
from troth.engine.looks import Ask, Gradient, Look, Of, keep_all
from troth.engine.many import Answers, AskMany, whole_inputs
from troth.explainers import SignedExplainer


@dataclass(frozen=True)
class InputXGradient(SignedExplainer):
    formula = "sᵢ = xᵢ · ∂f / ∂xᵢ"
    pitfalls = "Linear at one point: on transformers it is often no better than random."

    of: Of = "logit"

    def reads(self) -> Gradient:
        return Gradient(of=self.of)

    def ask(self, question: Question) -> Ask[Attribution]:
        answer = yield Look(question, keep_all(question), want=self.reads())
        scores, rest = answer.units["dot"][0].numpy(), float(answer.rest["dot"][0])
        return Attribution(question, scores, signed=self.signed, rest=rest)

    def ask_many(self, questions: Sequence[Question], whole: Answers | None) -> AskMany[list[Attribution]]:
        answers = whole or (yield whole_inputs(questions, self.reads()))
        scores, rest = answers.units["dot"].numpy(), answers.rest["dot"].tolist()
        return [
            Attribution(question, scores[row, : question.n_units], signed=self.signed, rest=rest[row])
            for row, question in enumerate(questions)
        ]
