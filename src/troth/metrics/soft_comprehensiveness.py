"""How much of the prediction is lost when each element of a unit's vectors is dropped with a probability equal to the
unit's score (Soft-NC; Zhao & Aletras, 2023).

Options and deviations as in soft_sufficiency: `scores` maps scores to probabilities, `samples` averages draws,
`retention` makes every method keep the same fraction, `clip` limits the score to [0, 1]. If fading the units costs more
than erasing all of them, it exceeds 1.
"""

from dataclasses import dataclass

import numpy as np

from troth.metrics import formulas
from troth.metrics._soft import SoftErasure
from troth.metrics.formulas import Floats


@dataclass(frozen=True)
class SoftComprehensiveness(SoftErasure):
    bounds = "[0, ∞), often above 1; with clip [0, 1]"
    formula = "max(0, p(x) − p(x̃)) / max(0, p(x) − p(∅)),  each element of x̃ᵢ dropped with probability g(sᵢ)"

    def keep(self, importance: Floats) -> Floats:
        return 1 - importance

    def values(self, full: float, left: Floats, empty: float) -> formulas.Values:
        if self.normalized:
            return formulas.normalized_comprehensiveness(full, left, empty, variant=self.variant)
        return np.maximum(0, formulas.comprehensiveness(full, left))
