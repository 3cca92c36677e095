"""Log-odds averaged over masking 1, 5, 10, 20 and 50 % (Shrikumar et al., 2017; the ratios of DeYoung et al., 2020)."""

from dataclasses import dataclass, field
from typing import ClassVar

from troth.metrics import formulas
from troth.metrics._erasing import OverRatios


@dataclass(frozen=True)
class AopcLogOdds(OverRatios):
    higher_is_better: ClassVar[bool | None] = False
    bounds: ClassVar[str] = "(−∞, ∞)"
    pitfalls: ClassVar[str] = "Not bounded: a few overconfident predictions can carry the mean."
    logs: ClassVar[bool] = True

    masking: str = field(default="mask_token", kw_only=True)

    def values(self, full: float, left: formulas.Floats, empty: float) -> formulas.Values:
        return formulas.log_odds(full, left, logs_given=True)
