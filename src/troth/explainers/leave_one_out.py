"""How much the class's value falls when the unit alone is erased (Li et al., 2016b)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from troth.core.types import Attribution, Question
from troth.engine.probes import Of, ProbeBatch, without_each_and_whole
from troth.engine.routines import Routine
from troth.explainers import SignedExplainer


@dataclass(frozen=True)
class LeaveOneOut(SignedExplainer):
    formula = "sᵢ = f(x) − f(x without i)"
    pitfalls = "Blind to redundancy: of two words that say the same, neither is missed alone."

    of: Of = "logit"

    def passes(self, n_units: int) -> int:
        return 1 + n_units

    def ask(self, questions: Sequence[Question]) -> Routine[list[Attribution]]:
        keep = np.concatenate([without_each_and_whole(question.n_units).ravel() for question in questions])
        counts = np.array([question.n_units + 1 for question in questions])
        # Of a text that has lost something already, several rows may be the same.
        is_distinct = all(question.base is None for question in questions)
        answers = yield ProbeBatch(questions, keep, counts, distinct=is_distinct)
        return [
            Attribution(question, (values[-1] - values[:-1]).numpy(), signed=self.signed)
            for question, values in zip(questions, answers.value(self.of).split(counts.tolist()), strict=True)
        ]
