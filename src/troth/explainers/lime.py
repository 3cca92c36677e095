"""The unit's coefficient in a linear model fitted to what the model says of randomly thinned inputs near this one
(Ribeiro et al., 2016).

As the authors' code for texts: each sample erases 1 to n units, the number uniform; it counts by a kernel on its cosine
distance (times 100, width 25) to the whole input; ridge regression with an intercept. Unlike theirs, every unit is a
feature of its own and none is left out. `note` has the standard error, averaged over the units.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import Attribution, Question
from troth.engine.looks import Ask, Look, Of
from troth.explainers import SignedExplainer
from troth.explainers._players import per_unit, players
from troth.explainers._regression import regress


@dataclass(frozen=True)
class Lime(SignedExplainer):
    samples: int = 1000  # the whole input is the first
    kernel_width: float = 25.0
    ridge: float = 1.0
    of: Of = "logit"

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise TrothError(f"lime: samples must be at least 2, not {self.samples}")
        if self.kernel_width <= 0:
            raise TrothError(f"lime: kernel_width must be above 0, not {self.kernel_width}")
        if self.ridge < 0:
            raise TrothError(f"lime: ridge must be 0 or more, not {self.ridge}")

    def passes(self, n_units: int) -> int:
        return min(self.samples, 1 << n_units)

    def ask(self, question: Question) -> Ask[Attribution]:
        count = len(players(question))
        if count == 0:
            return Attribution(question, torch.zeros(question.n_units).numpy(), signed=self.signed)
        kept = thinned(question.draws("lime").uniforms(self.samples - 1, count + 1))
        answer = yield Look(question, per_unit(question, kept))
        value = answer.value(self.of).double()
        coefficients, errors = surrogate(kept.double(), value, self.kernel_width, self.ridge)
        note = f"standard error {errors.mean():.2g} on average, {self.samples} samples"
        return Attribution(question, per_unit(question, coefficients).numpy(), signed=self.signed, note=note)


def thinned(uniforms: Tensor) -> Tensor:
    """The whole input, then one random part of it a row: the first number says how many units go, the others which.

    [rows, 1 + units] -> [1 + rows, units] True where a unit stays
    """
    count = uniforms.shape[1] - 1
    gone = 1 + (uniforms[:, :1] * count).long()
    ranks = uniforms[:, 1:].argsort(dim=1, stable=True).argsort(dim=1)
    return torch.cat([torch.ones(1, count, dtype=torch.bool), ranks >= gone])


def surrogate(kept: Tensor, values: Tensor, kernel_width: float, ridge: float) -> tuple[Tensor, Tensor]:
    """Coefficients of the units in the linear model near the whole input, and their standard errors."""
    # The cosine of the angle to the whole input is √(kept / all).
    distance = 100 * (1 - kept.mean(1).sqrt())
    weights = torch.exp(-((distance / kernel_width) ** 2) / 2)
    # Centred at the weighted mean, the intercept drops out, so ridge does not shrink it.
    share = weights / weights.sum()
    return regress(kept - share @ kept, values - share @ values, weights, ridge)
