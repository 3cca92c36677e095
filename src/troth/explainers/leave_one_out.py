"""How much the class's value falls when the unit alone is erased (Li et al., 2016b)."""

from dataclasses import dataclass

import torch

from troth.core.types import Attribution, Question
from troth.engine.looks import Ask, Look, Of, keep_all, keep_without_each
from troth.explainers import SignedExplainer


@dataclass(frozen=True)
class LeaveOneOut(SignedExplainer):
    of: Of = "logit"

    def passes(self, n_units: int) -> int:
        return 1 + n_units

    def ask(self, question: Question) -> Ask[Attribution]:
        keep = torch.cat([keep_without_each(question), keep_all(question)])
        answer = yield Look(question, keep, distinct=question.base is None)
        value = answer.value(self.of)
        return Attribution(question, (value[-1] - value[:-1]).numpy(), signed=self.signed)
