"""The area under the target's probability while units are masked from the most important on (Petsiuk et al., 2018).

Made for images; here every step masks 5 % of the units more (at least one), and the area is taken over the share
really masked. A good explanation makes the probability fall early.
"""

from dataclasses import dataclass

from troth.metrics._erasing import PerturbationCurve


@dataclass(frozen=True)
class Deletion(PerturbationCurve):
    higher_is_better = False
    formula = "∫₀¹ p(x without T_r) dr"
    pitfalls = "Depends on how sure the model is of the whole text: compare methods on the same examples only."
