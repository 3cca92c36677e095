"""How much the class's value falls when the unit alone is erased (Li et al., 2016b)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from troth.core.types import Attribution, Question
from troth.engine.probes import Of, ProbeBatch, positions
from troth.engine.routines import Routine
from troth.explainers import SignedExplainer


@dataclass(frozen=True)
class LeaveOneOut(SignedExplainer):
    formula = "sᵢ = f(x) − f(x without i)"
    pitfalls = "Misses redundancy: if two words say the same, erasing either one alone changes little."

    of: Of = "logit"

    def passes(self, n_units: int) -> int:
        return 1 + n_units

    def ask(self, questions: Sequence[Question]) -> Routine[list[Attribution]]:
        n_units = np.array([question.n_units for question in questions])
        counts = n_units + 1
        # Row i of a text erases unit i, and its last row none: a text of n units has no column n, so that one is
        # ignored.
        keep = positions(counts)[:, None] != np.arange(n_units.max(initial=0))
        # If a text has already lost units, several of its rows may be equal.
        is_distinct = all(question.base is None for question in questions)
        answers = yield ProbeBatch(questions, keep, counts, distinct=is_distinct)
        return [
            Attribution(question, (values[-1] - values[:-1]).numpy(), signed=self.signed)
            for question, values in zip(questions, answers.value(self.of).split(counts.tolist()), strict=True)
        ]
