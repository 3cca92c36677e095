"""Comprehensiveness averaged over erasing 1, 5, 10, 20 and 50 % (DeYoung et al., 2020).

`variant="released"` is AML's released code: it divides the sum by one more than the number of ratios, and a ratio that
selects no unit scores 0.
"""

from dataclasses import dataclass

from troth.metrics._erasing import OverRatios


@dataclass(frozen=True)
class AopcComprehensiveness(OverRatios):
    higher_is_better = True
    bounds = "[−1, 1]"
    formula = "mean over r = 1, 5, 10, 20, 50 % of p(x) − p(x without T_r)"
    pitfalls = "On texts under 100 units the smallest ratios erase nothing and pull the mean toward 0."
