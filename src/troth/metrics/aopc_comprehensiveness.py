"""Comprehensiveness averaged over erasing 1, 5, 10, 20 and 50 % (DeYoung et al., 2020).

`variant="released"` is AML's released code: it divides the sum by one more than there are ratios, and a ratio that
stands for no unit scores 0.
"""

from dataclasses import dataclass
from typing import ClassVar

from troth.metrics import formulas
from troth.metrics._erasing import OverRatios


@dataclass(frozen=True)
class AopcComprehensiveness(OverRatios):
    higher_is_better: ClassVar[bool | None] = True
    bounds: ClassVar[str] = "[−1, 1]"
    pitfalls: ClassVar[str] = "On texts under 100 units the smallest ratios erase nothing and pull the mean toward 0."

    def values(self, full: float, left: formulas.Floats, empty: float) -> formulas.Values:
        return formulas.comprehensiveness(full, left)
