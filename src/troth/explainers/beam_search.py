"""The unit's place in the order of erasing that is found to hurt the class most, n for the first and 1 for the last
(Zhou & Shah, 2023, "Solvex"; Beam in FMM, Madsen et al., 2024).

An order is worth the sum over its prefixes of f(input) − f(prefix erased), or of f(only prefix kept) − f(prefix erased)
for `objective="comp_minus_suff"`. The search extends the best `width` orders by every unit that is left; a set of
erased units that another order of the round reached before is dropped. `preset="fmm"` is the default; `preset="solvex"`
is width 50, comp − suff on the probability, duplicates kept. Solvex then moves the zero of its ranks; we do not.
"""

from dataclasses import dataclass, field, fields
from math import comb
from typing import Any, Literal

import torch

from troth.core.errors import TrothError
from troth.core.types import Attribution, Question
from troth.engine.looks import Ask, Look, Of
from troth.explainers import Explainer
from troth.explainers._players import first_of_each, marks, per_unit, players

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
        "others, too."
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
        # In a round every entry loses one more unit; there are only so many sets of that size.
        sets = sum(min(self.width * (n_units - gone + 1), comb(n_units, gone)) for gone in range(1, n_units + 1))
        return 1 + sets * (2 if self.objective == "comp_minus_suff" else 1)

    def ask(self, question: Question) -> Ask[Attribution]:
        count = len(players(question))
        number = marks(count)
        # The beam: orders found so far, best first.
        erased = torch.zeros(1, count, dtype=torch.bool)
        keys = torch.zeros(1, dtype=torch.int64)
        worth = torch.zeros(1, dtype=torch.float64)
        order = torch.zeros(1, 0, dtype=torch.int64)
        for _ in range(count):
            parent, unit = (~erased).nonzero(as_tuple=True)  # best order first, its units left to right
            grown_keys = keys[parent] + number[unit]
            if self.drop_duplicates:
                first = first_of_each(grown_keys)
                parent, unit, grown_keys = parent[first], unit[first], grown_keys[first]
            grown = erased[parent].scatter(1, unit[:, None], True)
            both = self.objective == "comp_minus_suff"
            answer = yield Look(question, per_unit(question, torch.cat([~grown, grown]) if both else ~grown))
            value = answer.value(self.of).double()
            # f(input) is the same for all of them.
            worth = worth[parent] + (value[len(unit) :] - value[: len(unit)] if both else -value)
            best = torch.sort(worth, descending=True, stable=True).indices[: self.width]
            erased, keys, worth = grown[best], grown_keys[best], worth[best]
            order = torch.cat([order[parent[best]], unit[best, None]], dim=1)
        scores = torch.zeros(count).scatter(0, order[0], torch.arange(count, 0, -1, dtype=torch.float32))
        return Attribution(question, per_unit(question, scores).numpy(), signed=self.signed)
