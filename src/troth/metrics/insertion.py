"""The area under the curve of the target's probability while units are restored in the masked text, most important
first (Petsiuk et al., 2018).

The metric was designed for images; here every step restores 5 % of the units (at least one), and the area is computed
over the fraction that is actually restored. A good explanation makes the probability rise early.
"""

from dataclasses import dataclass

from troth.metrics._erasing import PerturbationCurve


@dataclass(frozen=True)
class Insertion(PerturbationCurve):
    higher_is_better = True
    formula = "∫₀¹ p(T_r alone) dr"
    pitfalls = "Depends on the prediction for a completely masked text: compare methods on the same examples only."
    inserts = True
