"""The change of the target's log-probability when the units with the highest scores are masked (Shrikumar et al.,
2017).

It is negative if the target becomes less likely. Computed from log-probabilities, so it is always finite.
"""

from dataclasses import dataclass, field

from troth.metrics._erasing import AtRatio


@dataclass(frozen=True)
class LogOdds(AtRatio):
    higher_is_better = False
    bounds = "(−∞, ∞)"
    formula = "log p(x without T) − log p(x)"
    pitfalls = "Not bounded: a few overconfident predictions can dominate the mean."
    logs = True

    masking: str = field(default="mask_token", kw_only=True)
