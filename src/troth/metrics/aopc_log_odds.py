"""Log-odds averaged over masking 1, 5, 10, 20 and 50 % (Shrikumar et al., 2017; the ratios of DeYoung et al., 2020)."""

from dataclasses import dataclass, field

from troth.metrics._erasing import OverRatios


@dataclass(frozen=True)
class AopcLogOdds(OverRatios):
    higher_is_better = False
    bounds = "(−∞, ∞)"
    formula = "mean over r = 1, 5, 10, 20, 50 % of log p(x without T_r) − log p(x)"
    pitfalls = "Not bounded: a few overconfident predictions can dominate the mean."
    logs = True

    masking: str = field(default="mask_token", kw_only=True)
