"""How much the target's probability falls when the units with the highest scores are erased (DeYoung et al., 2020).

The number of erased units is rounded down, as in AML: on a short text a small ratio erases nothing and the score is 0.
"""

from dataclasses import dataclass

from troth.metrics._erasing import AtRatio


@dataclass(frozen=True)
class Comprehensiveness(AtRatio):
    higher_is_better = True
    bounds = "[−1, 1]"
    formula = "p(x) − p(x without T)"
    pitfalls = "The model may never have seen texts like one without its most important words."
