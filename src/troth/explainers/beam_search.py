"""The unit's rank in the erasing order that lowers the class's value most, as found by beam search: n for the first
unit and 1 for the last (Zhou & Shah, 2023, "Solvex"; Beam in FMM, Madsen et al., 2024).

The value of an order is the sum over its prefixes of f(input) − f(prefix erased), or of f(only prefix kept) − f(prefix
erased) for `objective="comp_minus_suff"`. Each round extends the best `width` orders by every remaining unit and drops
a set of erased units that another order has reached in the same round. `preset="fmm"` is the default; `preset="solvex"`
is width 50, comp − suff on the probability, with duplicates kept. Solvex then adds a constant to its ranks, which is
omitted here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from math import comb
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from troth.core import draws
from troth.core.errors import TrothError
from troth.core.types import Attribution, Question
from troth.engine.probes import Of, ProbeBatch
from troth.engine.routines import Routine
from troth.explainers import Explainer
from troth.explainers._players import marks

_PRESETS: dict[str, dict[str, Any]] = {
    "fmm": {"width": 10, "objective": "comprehensiveness", "of": "logit", "drop_duplicates": True},
    "solvex": {"width": 50, "objective": "comp_minus_suff", "of": "probability", "drop_duplicates": False},
}


@dataclass(frozen=True)
class BeamSearch(Explainer):
    signed = False
    recursive = True
    formula = "sᵢ = n + 1 − place of i in the order π with the largest Σₖ f(x) − f(x without π₁ … πₖ)"
    pitfalls = (
        "Its cost grows with the square of the length. It optimizes what erasure metrics measure, so compare it by "
        "other metrics, too."
    )

    width: int = 10
    objective: Literal["comprehensiveness", "comp_minus_suff"] = "comprehensiveness"
    of: Of = "logit"
    drop_duplicates: bool = True
    preset: Literal["fmm", "solvex"] | None = field(default=None, repr=False, compare=False)  # sets all of the above

    def __post_init__(self) -> None:
        if self.width < 1:
            raise TrothError(f"beam_search: width must be at least 1, not {self.width}")
        defaults = {option.name: option.default for option in fields(self)}
        for option, value in _PRESETS.get(self.preset or "", {}).items():
            chosen = getattr(self, option)
            if chosen not in (defaults[option], value):
                raise TrothError(
                    f"beam_search: preset {self.preset} sets {option}={value}; drop {option}={chosen} or the preset"
                )
            object.__setattr__(self, option, value)

    def passes(self, n_units: int) -> int:
        # In each round every order loses one more unit; the number of distinct sets of that size is limited.
        sets = sum(min(self.width * (n_units - gone + 1), comb(n_units, gone)) for gone in range(1, n_units + 1))
        return 1 + sets * (2 if self.objective == "comp_minus_suff" else 1)

    def ask(self, questions: Sequence[Question]) -> Routine[list[Attribution]]:
        search = _Search(self, questions)
        # With comp − suff, one order may keep what another order erases.
        differs = self.drop_duplicates and self.objective == "comprehensiveness"
        while len(keep := search.grown()):
            counts = np.bincount(search.row_text, minlength=len(questions))
            answers = yield ProbeBatch(questions, keep, counts, distinct=differs)
            search.choose(answers.value(self.of).numpy())
        return search.attributions(self.signed)


class _Search:
    """The beams of several texts, advanced together; texts that are fully erased are finished."""

    def __init__(self, settings: BeamSearch, questions: Sequence[Question]) -> None:
        self._settings, self._questions = settings, questions
        widest = max((question.n_units for question in questions), default=0)
        self._left = np.zeros((len(questions), widest), np.bool_)
        for own, question in zip(self._left, questions, strict=True):
            own[: question.n_units] = question.left.numpy() > 0
        self._numbers = marks(self._left.shape[1]).numpy()
        # The current orders, text by text, the best first; units that are not there count as erased.
        self._text = np.arange(len(questions))
        self._erased = ~self._left
        self._keys = draws.row_keys(1, torch.arange(1, len(questions) + 1)).numpy()
        self._worth = np.zeros(len(questions))
        self._order = np.zeros((len(questions), 0), np.int64)
        self._best = [self._order[0]] * len(questions)  # the best order of each text so far

    def grown(self) -> NDArray[np.bool_]:
        """Extends every order by one unit and returns which units each row keeps, text by text. [rows, most units]"""
        parent, unit = np.nonzero(~self._erased)  # the best order first, its units from left to right
        keys = self._keys[parent] + self._numbers[unit]
        if self._settings.drop_duplicates:
            first = np.sort(np.unique(keys, return_index=True)[1])
            parent, unit, keys = parent[first], unit[first], keys[first]
        erased = self._erased[parent]
        erased[np.arange(len(unit)), unit] = True
        self._grown = parent, unit, keys, erased
        text = self._text[parent]
        keep = ~erased
        self.row_text, self._rows = text, np.arange(len(text))
        if self._settings.objective == "comp_minus_suff":
            # For each text, first the rows without a prefix, then the rows with the prefix only.
            self._rows = np.argsort(np.concatenate([text, text]), kind="stable")
            keep = np.concatenate([keep, erased & self._left[text]])[self._rows]
            self.row_text = np.concatenate([text, text])[self._rows]
        return keep

    def choose(self, given: NDArray[np.float32]) -> None:
        """Selects the best orders, given the model's value for each row."""
        parent, unit, keys, erased = self._grown
        value = np.empty(len(given), np.float64)
        value[self._rows] = given
        # f(input) is a constant for each text.
        change = -value if len(value) == len(unit) else value[len(unit) :] - value[: len(unit)]
        worth, text = self._worth[parent] + change, self._text[parent]
        by_worth = np.lexsort((-worth, text))  # stable
        sizes = np.bincount(text, minlength=len(self._questions))
        place = np.arange(len(text)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        best = by_worth[place < self._settings.width]
        self._text, self._erased, self._keys, self._worth = text[best], erased[best], keys[best], worth[best]
        self._order = np.column_stack([self._order[parent[best]], unit[best]])
        texts, first = np.unique(self._text, return_index=True)
        for number, order in zip(texts.tolist(), self._order[first], strict=True):
            self._best[number] = order

    def attributions(self, signed: bool) -> list[Attribution]:
        """The attributions, once nothing is left to erase."""
        found = []
        for question, order in zip(self._questions, self._best, strict=True):
            scores = np.zeros(question.n_units, np.float32)
            scores[order] = np.arange(len(order), 0, -1)
            found.append(Attribution(question, scores, signed=signed))
        return found
