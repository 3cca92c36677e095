"""The fraction of the text that must be deleted, most important units first, before the predicted class changes
(Serrano & Smith, 2019; in steps of 5 % as in Chrysostomou & Aletras, 2021).

Every step deletes at least one unit. A prediction that never changes scores 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from troth.core.types import Attribution, Question, Score
from troth.engine.probes import Probe
from troth.engine.routines import Routine, per_text
from troth.metrics import ExplainOne, defined_records, formulas
from troth.metrics._erasing import Stepwise, steps_of, top_units


@dataclass(frozen=True)
class DecisionFlip(Stepwise):
    higher_is_better = False
    needs_decision = True
    bounds = "(0, 1]"
    formula = "the smallest k / n with class(x without the top k) ≠ class(x); 1 where there is none"
    pitfalls = (
        "Measures the predicted class, whatever class was explained. A text whose class the model also predicts for an "
        "empty text may never flip."
    )

    masking: str = "delete"

    @per_text
    def ask(self, question: Question, attribution: Attribution, explain: ExplainOne) -> Routine[Score]:
        n_units = question.n_units
        counts = steps_of(self.step, n_units)
        keep = 1 - top_units(attribution.scores, counts)
        answer = yield Probe(question, keep, self.perturbation)
        ratios, predictions = [count / n_units for count in counts], answer.predicted.tolist()
        flipped = any(predicted != predictions[0] for predicted in predictions)
        record = {"ratios": ratios, "predictions": predictions, "flipped": flipped}
        return Score(formulas.decision_flip(ratios, predictions), record)

    def extra(self, scores: Sequence[Score]) -> Mapping[str, Any]:
        flipped = [record["flipped"] for record in defined_records(scores)]
        return {"never_flips": float(1 - np.mean(flipped)) if flipped else np.nan}
