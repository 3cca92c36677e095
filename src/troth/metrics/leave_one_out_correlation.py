"""How well the ranking of the scores agrees with the change of the target's logit when each unit alone is masked:
Kendall's τ (Jain & Wallace, 2019).

`kind="pearson"` compares magnitudes instead of ranks; `of` selects the value of the class.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from troth import statistics
from troth.core.types import Attribution, Question, Score
from troth.engine.probes import Of, Probe, keep_all, keep_without_each
from troth.engine.routines import Routine, per_text
from troth.metrics import Erasing, ExplainOne, formulas, undefined
from troth.metrics._erasing import why_no_correlation


@dataclass(frozen=True)
class LeaveOneOutCorrelation(Erasing):
    higher_is_better = True
    bounds = "[−1, 1]"
    formula = "Kendall's τ of sᵢ with f(x) − f(x without i)"
    pitfalls = "leave_one_out itself scores 1 by construction; redundant words mask each other's effect."

    kind: Literal["kendall", "pearson"] = "kendall"
    of: Of = "logit"
    masking: str = "mask_token"

    @property
    def erased(self) -> tuple[float, float]:
        return (0.0, 0.0)  # one unit at a time

    @per_text
    def ask(self, question: Question, attribution: Attribution, explain: ExplainOne) -> Routine[Score]:
        keep = torch.cat([keep_all(question), keep_without_each(question)])
        answer = yield Probe(question, keep, self.perturbation)
        values = answer.value(self.of).double().numpy()
        drops = values[0] - values[1:]
        if self.kind == "kendall":
            value = statistics.kendall_tau(attribution.scores, drops)
        else:
            value = formulas.importance_correlation(attribution.scores, -drops)
        if np.isnan(value):
            return undefined(why_no_correlation(attribution.scores), drops=drops.tolist())
        return Score(value, {"drops": drops.tolist()})
