"""How much the class's value falls when the unit alone is erased (Li et al., 2016b)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from troth.core.types import Attribution, Question
from troth.engine.looks import Ask, Look, Of, without_each_and_whole
from troth.engine.many import Answers, AskMany, Looks, split
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

    def ask_many(self, questions: Sequence[Question], whole: Answers | None) -> AskMany[list[Attribution]]:
        n_units = np.array([question.n_units for question in questions], np.int64)
        rows = n_units if whole is not None else n_units + 1
        keep = np.concatenate([_erasing_each(question.n_units, whole is None) for question in questions])
        is_plain = all(question.base is None for question in questions)
        answers = yield Looks(questions, keep, rows, distinct=is_plain)
        value = answers.value(self.of)
        if whole is not None:
            before = whole.value(self.of)
        else:
            last = np.cumsum(rows) - 1
            before, value = value[last], np.delete(value, last)
        scores = split(np.repeat(before, n_units) - value, n_units)
        for question, own in zip(questions, scores, strict=True):
            if question.encoding.has_tokenless:
                own[question.encoding.tokenless.numpy()] = 0  # erasing it changes nothing, in whatever batch
        return [Attribution(question, own, signed=self.signed) for question, own in zip(questions, scores, strict=True)]


@lru_cache(maxsize=64)
def _erasing_each(n_units: int, with_whole: bool) -> NDArray[np.bool_]:
    """Flat: row i erases unit i; perhaps the last one none."""
    keep: NDArray[np.bool_] = without_each_and_whole(n_units).numpy() == 1
    return keep[: n_units + with_whole].ravel()
