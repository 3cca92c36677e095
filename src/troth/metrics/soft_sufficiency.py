"""How much of the prediction survives when each element of a unit's vectors is kept with its score as probability
(Soft-NS; Zhao & Aletras, 2023).

The paper does not say how scores become probabilities: `scores` chooses. By default signed scores go through a sigmoid,
which depends on their scale (scores near 0 all become 1/2), and unsigned ones are stretched to [0, 1] (`min_max`). A
bench uses one map for all its explainers and names it in the metric: `min_max` where signed and unsigned scores meet.

One draw in the paper; `samples` averages more and records the standard error. `clip=true` limits each draw's score to
[0, 1]. `variant="released"` is the authors' code: keep probabilities are swapped between the two soft metrics, the
denominator is nudged and the score clipped; that code drops elements after the embedding layer, too:
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
