"""How much the class's value falls when the unit alone is erased (Li et al., 2016b)."""

from dataclasses import dataclass

from troth.core.types import Attribution, Question
from troth.engine.looks import Ask, Look, Of, without_each_and_whole
from troth.explainers import SignedExplainer


@dataclass(frozen=True)
class LeaveOneOut(SignedExplainer):
    formula = "sᵢ = f(x) − f(x without i)"
    pitfalls = "Blind to redundancy: of two words that say the same, neither is missed alone."

    of: Of = "logit"

    def passes(self, n_units: int) -> int:
        return 1 + n_units

    def ask(self, question: Question) -> Ask[Attribution]:
        answer = yield Look(question, without_each_and_whole(question.n_units), distinct=question.base is None)
        value = answer.value(self.of)
        return Attribution(question, (value[-1] - value[:-1]).numpy(), signed=self.signed)
