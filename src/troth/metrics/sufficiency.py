"""What the target's probability loses when only the units with the highest scores are kept (DeYoung et al., 2020).

The share kept is rounded down, as in AML: on a short text a small ratio keeps nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from troth import catalog
from troth.looks import Ask, Look, keep_all
from troth.metrics import Explain, Metric, formulas, undefined
from troth.metrics._erasing import Rounding, basis_points, top_units
from troth.types import Attribution, Question, Score


@dataclass(frozen=True)
class Sufficiency(Metric):
    higher_is_better: ClassVar[bool | None] = False

    ratio: float = 0.2
    rounding: Rounding = "floor"
    masking: str = "delete"

    def __post_init__(self) -> None:
        basis_points(self.ratio)

    def ask(self, question: Question, attribution: Attribution, explain: Explain) -> Ask[Score]:
        if question.n_units == 0:
            return undefined("the text has no units")
        top = top_units(attribution, [self.ratio], self.rounding)
        answer = yield Look(question, torch.cat([keep_all(question), top]), catalog.build("maskings", self.masking))
        full, kept = answer.probability.tolist()
        return Score(formulas.sufficiency(full, kept), {"p_full": full, "p_kept": kept})
