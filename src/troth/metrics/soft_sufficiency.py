"""How much of the prediction is preserved when each element of a unit's vectors is kept with a probability equal to the
unit's score (Soft-NS; Zhao & Aletras, 2023).

The paper does not say how scores become probabilities: `scores` selects the map. By default signed scores go through a
sigmoid, which depends on their scale (scores near 0 all become 1/2), and unsigned scores are rescaled to [0, 1]
(`min_max`). A bench uses one map for all its explainers and names it in the metric: `min_max` if there are signed and
unsigned scores.

The paper uses one draw; `samples` averages more and records the standard error. `clip=true` limits each draw's score to
[0, 1]. `variant="released"` is the authors' code: keep probabilities are swapped between the two soft metrics, a small
constant is added to the denominator and the score is clipped; that code also drops elements after the embedding layer:
`at="embedding_output"`.
"""

from dataclasses import dataclass

import numpy as np

from troth.metrics import formulas
from troth.metrics._soft import SoftErasure
from troth.metrics.formulas import Floats


@dataclass(frozen=True)
class SoftSufficiency(SoftErasure):
    bounds = "(−∞, 1], often below 0; with clip [0, 1]"
    formula = "1 − max(0, p(x) − p(x̃)) / max(0, p(x) − p(∅)),  each element of x̃ᵢ kept with probability g(sᵢ)"

    def keep(self, importance: Floats) -> Floats:
        return importance

    def values(self, full: float, left: Floats, empty: float) -> formulas.Values:
        if self.normalized:
            return formulas.normalized_sufficiency(full, left, empty, variant=self.variant)
        return 1 - np.maximum(0, formulas.sufficiency(full, left))
