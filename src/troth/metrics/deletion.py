"""The area under the curve of the target's probability while units are masked, most important first (Petsiuk et al.,
2018).

The metric was designed for images; here every step masks another 5 % of the units (at least one), and the area is
computed over the fraction that is actually masked. A good explanation makes the probability fall early.
"""

from dataclasses import dataclass

from troth.metrics._erasing import PerturbationCurve


@dataclass(frozen=True)
class Deletion(PerturbationCurve):
    higher_is_better = False
    formula = "∫₀¹ p(x without T_r) dr"
    pitfalls = "Depends on how certain the model is about the whole text: compare methods on the same examples only."
