"""How far the target's log-probability moves when the units with the highest scores are masked
(Shrikumar et al., 2017).

Negative where the target becomes less likely. Taken from log-probabilities, so it is finite however unlikely the class.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from troth.metrics import formulas
from troth.metrics._erasing import AtRatio


@dataclass(frozen=True)
class LogOdds(AtRatio):
    higher_is_better: ClassVar[bool | None] = False
    bounds: ClassVar[str] = "(−∞, ∞)"
    pitfalls: ClassVar[str] = "Not bounded: a few overconfident predictions can carry the mean."
    logs: ClassVar[bool] = True

    masking: str = field(default="mask_token", kw_only=True)

    def values(self, full: float, left: formulas.Floats, empty: float) -> formulas.Values:
        return formulas.log_odds(full, left, logs_given=True)
