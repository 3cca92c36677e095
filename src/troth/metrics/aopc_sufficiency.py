"""Sufficiency averaged over keeping 1, 5, 10, 20 and 50 % (DeYoung et al., 2020).

`variant="released"` is AML's released code: it divides the sum by one more than the number of ratios, and a ratio that
selects no unit scores 0, where the paper's formula compares the whole text with an empty one.
"""

from dataclasses import dataclass

from troth.metrics._erasing import OverRatios


@dataclass(frozen=True)
class AopcSufficiency(OverRatios):
    higher_is_better = False
    bounds = "[−1, 1]"
    formula = "mean over r = 1, 5, 10, 20, 50 % of p(x) − p(T_r alone)"
    pitfalls = "On texts under 100 units the smallest ratios keep nothing, whatever the explanation."
    keeps_top = True
