"""How much the target's probability falls when only the units with the highest scores are kept (DeYoung et al.,
2020).

The number of kept units is rounded down, as in AML: on a short text a small ratio keeps nothing.
"""

from dataclasses import dataclass

from troth.metrics._erasing import AtRatio


@dataclass(frozen=True)
class Sufficiency(AtRatio):
    higher_is_better = False
    bounds = "[−1, 1]"
    formula = "p(x) − p(T alone)"
    pitfalls = "A few words alone are unlike any text that the model was trained on."
    keeps_top = True
