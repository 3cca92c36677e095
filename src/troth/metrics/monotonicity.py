"""The fraction of steps at which the target's probability does not fall while units are added to the masked text, least
important first (Arya et al., 2019).

Arya et al. only test whether the probability falls at none of the steps: `every=True`.
"""

from dataclasses import dataclass

from troth.core.types import Attribution, Question, Score
from troth.engine.probes import Probe
from troth.engine.routines import Routine, per_text
from troth.metrics import Erasing, ExplainOne, formulas
from troth.metrics._erasing import target_probability, top_units


@dataclass(frozen=True)
class Monotonicity(Erasing):
    higher_is_better = True
    bounds = "[0, 1]"
    formula = "share of k with p(lowest k + 1 alone) ≥ p(lowest k alone)"
    pitfalls = "Not informative if units act independently: then every order rises and falls equally often."

    every: bool = False
    masking: str = "mask_token"

    @per_text
    def ask(self, question: Question, attribution: Attribution, explain: ExplainOne) -> Routine[Score]:
        n_units = question.n_units
        keep = 1 - top_units(attribution.scores, range(n_units, -1, -1))  # [units + 1, units]
        answer = yield Probe(question, keep, self.perturbation)
        p = target_probability(answer)
        return Score(formulas.monotonicity(p, every=self.every), {"p": p.tolist()})
