"""How much of the prediction the top units alone preserve, from 0 (no more than the empty input) to 1 (NS; Carton et
al., 2020).

The mean over keeping 1, 5, 10, 20 and 50 %, rounded up, as in Zhao & Aletras (2023): word vectors become 0, and a gain
counts as no loss. If the top units alone do worse than the empty input, it is below 0; `clip=true` limits each ratio to
[0, 1]. Their released code erases with id 0, adds a small constant to the denominator and clips: `variant="released"`.
"""

from dataclasses import dataclass

from troth.metrics import formulas
from troth.metrics._erasing import Normalized
from troth.metrics.formulas import Floats


@dataclass(frozen=True)
class NormalizedSufficiency(Normalized):
    higher_is_better = True
    bounds = "(−∞, 1], often below 0; with clip [0, 1]"
    formula = "mean over r of 1 − max(0, p(x) − p(T_r alone)) / max(0, p(x) − p(∅))"
    keeps_top = True

    def values(self, full: Floats, left: Floats, empty: Floats) -> formulas.Values:
        return formulas.normalized_sufficiency(full, left, empty, variant=self.variant)
