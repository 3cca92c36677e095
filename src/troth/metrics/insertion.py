"""The area under the target's probability while units come back to the masked text, most important first
(Petsiuk et al., 2018).

Made for images; here every step brings back 5 % of the units (at least one), and the area is taken over the share
really there. A good explanation makes the probability rise early.
"""

from dataclasses import dataclass

from troth.metrics._erasing import PerturbationCurve


@dataclass(frozen=True)
class Insertion(PerturbationCurve):
    higher_is_better = True
    formula = "∫₀¹ p(T_r alone) dr"
    pitfalls = "Depends on what the model says of a wholly masked text: compare methods on the same examples only."
    inserts = True
