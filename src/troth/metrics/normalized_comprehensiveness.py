"""The loss of the prediction when the top units are erased, relative to the loss when everything is erased (NC; Carton
et al., 2020).

The mean over erasing 1, 5, 10, 20 and 50 %, rounded up, as in Zhao & Aletras (2023): word vectors become 0, and an
increase counts as no loss. If erasing the top units costs more than erasing everything, it exceeds 1; `clip=true`
limits each ratio to [0, 1]. Their released code erases with id 0, adds a small constant to the denominator and clips:
`variant="released"`.
"""

from dataclasses import dataclass

from troth.metrics import formulas
from troth.metrics._erasing import Normalized
from troth.metrics.formulas import Floats


@dataclass(frozen=True)
class NormalizedComprehensiveness(Normalized):
    higher_is_better = True
    bounds = "[0, ∞), often above 1; with clip [0, 1]"
    formula = "mean over r of max(0, p(x) − p(x without T_r)) / max(0, p(x) − p(∅))"

    def values(self, full: Floats, left: Floats, empty: Floats) -> formulas.Values:
        return formulas.normalized_comprehensiveness(full, left, empty, variant=self.variant)
