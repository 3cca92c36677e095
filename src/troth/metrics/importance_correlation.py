"""The correlation between a unit's score and the fall of the target's probability when that unit alone is masked (CORR;
Arya et al., 2019).
"""

from dataclasses import dataclass

import numpy as np

from troth.core.types import Attribution, Question, Score
from troth.engine.probes import Probe, keep_without_each
from troth.engine.routines import Routine, per_text
from troth.metrics import Erasing, ExplainOne, formulas, undefined
from troth.metrics._erasing import target_probability, why_no_correlation


@dataclass(frozen=True)
class ImportanceCorrelation(Erasing):
    higher_is_better = True
    bounds = "[−1, 1]"
    formula = "Pearson's correlation of sᵢ with p(x) − p(x without i)"
    pitfalls = "Linear, so one outlier can decide. Favors methods that mask one unit at a time themselves."

    masking: str = "mask_token"

    @property
    def erased(self) -> tuple[float, float]:
        return (0.0, 0.0)  # one unit at a time

    @per_text
    def ask(self, question: Question, attribution: Attribution, explain: ExplainOne) -> Routine[Score]:
        answer = yield Probe(question, keep_without_each(question), self.perturbation)
        p = target_probability(answer)
        value = formulas.importance_correlation(attribution.scores, p)
        if np.isnan(value):
            return undefined(why_no_correlation(attribution.scores), p_erased=p.tolist())
        return Score(value, {"p_erased": p.tolist()})
