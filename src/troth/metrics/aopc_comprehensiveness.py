"""Comprehensiveness averaged over erasing 1, 5, 10, 20 and 50 % (DeYoung et al., 2020).

AML's released code divides the sum by one more than there are ratios: `variant="released"`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from troth import catalog
from troth.looks import Ask, Look, keep_all
from troth.metrics import Explain, Metric, formulas, undefined
from troth.metrics._erasing import AOPC_RATIOS, Rounding, top_units
from troth.types import Attribution, Question, Score


@dataclass(frozen=True)
class AopcComprehensiveness(Metric):
    higher_is_better: ClassVar[bool | None] = True

    ratios: tuple[float, ...] = AOPC_RATIOS
    rounding: Rounding = "floor"
    masking: str = "delete"
    variant: formulas.Variant = "paper"

    def ask(self, question: Question, attribution: Attribution, explain: Explain) -> Ask[Score]:
        if question.n_units == 0:
            return undefined("the text has no units")
        top = top_units(attribution, self.ratios, self.rounding)
        answer = yield Look(question, torch.cat([keep_all(question), 1 - top]), catalog.build("maskings", self.masking))
        full, erased = answer.probability[0].item(), answer.probability[1:].numpy()
        values = formulas.comprehensiveness(full, erased)
        record = {"ratios": list(self.ratios), "p_full": full, "p_erased": erased.tolist()}
        return Score(formulas.aopc(values, variant=self.variant), record)
