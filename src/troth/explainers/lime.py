"""The unit's coefficient in a linear model that is fitted to the model's outputs for inputs near this one, in which
random units are erased (Ribeiro et al., 2016).

As in the authors' code for texts, each sample erases a uniform random number of units, from 1 to n. Its weight is a
kernel of its cosine distance to the whole input (times 100, width 25), and the linear model is a ridge regression with
an intercept. Unlike in their code, every unit is a separate feature and all features are used. `note` contains the
standard error, averaged over the units.

With a `tolerance`, each round adds half as many samples, until the 95 % interval of every score is within ± `tolerance`
times the largest one, or `samples` is reached. The interval is ± 1.96 sandwich standard errors, which describe the
random choice of samples. It does not include the shrinkage by ridge regression, which is larger for fewer samples.

`penalty="l1"` fits a sparse model as ContextCite does (Cohen-Wang et al., 2024): each unit is kept with probability ½,
all samples have the same weight, and Lasso (`alpha`) with an intercept is fitted to standardized columns. ContextCite
explains the log-odds of a whole response, with 64 samples; here `of` and `samples` select both.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import Attribution, Question
from troth.engine.probes import Of, Probe
from troth.engine.routines import Routine, per_text
from troth.explainers import SignedExplainer, _stopping
from troth.explainers._players import per_unit, players, ranks
from troth.explainers._regression import regress, sparse

_KERNEL_WIDTH, _RIDGE, _ALPHA = 25.0, 1.0, 0.01
_FIRST = 200  # samples of the first round, or eight per unit if that is more: with fewer, standard errors are too small


@dataclass(frozen=True)
class Lime(SignedExplainer):
    formula = "s = argmin Σ_z w(z) (f(z) − a − Σᵢ sᵢ zᵢ)² + ridge · ‖s‖²,  w(z) = exp(−d(z)² / (2 · width²))"
    pitfalls = (
        "Samples at random: another seed gives other scores. Set tolerance, and see the standard error in the note."
    )

    samples: int = 1000  # including the whole input, which is the first one
    kernel_width: float = _KERNEL_WIDTH
    ridge: float = _RIDGE
    of: Of = "logit"
    tolerance: float | None = None  # 0.1: stop when every score is known to ± 10 % of the largest
    penalty: Literal["l2", "l1"] = "l2"
    alpha: float = _ALPHA  # penalty of the Lasso

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise TrothError(f"lime: samples must be at least 2, not {self.samples}")
        if self.kernel_width <= 0:
            raise TrothError(f"lime: kernel_width must be above 0, not {self.kernel_width}")
        if self.ridge < 0:
            raise TrothError(f"lime: ridge must be 0 or more, not {self.ridge}")
        if self.alpha <= 0:
            raise TrothError(f"lime: alpha must be above 0, not {self.alpha}")
        _stopping.check("lime", self.tolerance)
        if self.penalty == "l1":
            if self.tolerance is not None:
                raise TrothError("lime: penalty=l1 has no standard errors to stop by; drop tolerance, or use l2")
            if (self.kernel_width, self.ridge) != (_KERNEL_WIDTH, _RIDGE):
                raise TrothError("lime: kernel_width and ridge belong to penalty=l2; with l1 there is alpha")
        elif self.alpha != _ALPHA:
            raise TrothError("lime: alpha belongs to penalty=l1; with l2 there is ridge")

    def passes(self, n_units: int) -> int:
        return min(self.samples, 1 << n_units)

    @per_text
    def ask(self, question: Question) -> Routine[Attribution]:
        count = len(players(question))
        if count == 0:
            return Attribution(question, torch.zeros(question.n_units).numpy(), signed=self.signed)
        scores, note = yield from (self._sparse if self.penalty == "l1" else self._near)(question, count)
        return Attribution(question, per_unit(question, scores).numpy(), signed=self.signed, note=note)

    def _near(self, question: Question, count: int) -> Routine[tuple[Tensor, str]]:
        drawn = thinned(question.draws("lime").uniforms(self.samples - 1, count + 1))
        values = torch.zeros(0, dtype=torch.float64)
        note = ""
        for samples in _stopping.budgets(max(_FIRST, 8 * count), self.samples, self.tolerance):
            answer = yield Probe(question, per_unit(question, drawn[len(values) : samples]))
            values = torch.cat([values, answer.value(self.of).double()])
            scores, errors = surrogate(drawn[:samples].double(), values, self.kernel_width, self.ridge)
            note = f"standard error {errors.mean():.2g} on average, {samples} samples"
            if self.tolerance is not None:
                note = _stopping.said(errors, samples, self.samples)
                if _stopping.narrow(scores, errors, self.tolerance):
                    break
        return scores, note

    def _sparse(self, question: Question, count: int) -> Routine[tuple[Tensor, str]]:
        kept = question.draws("lime").uniforms(self.samples, count) < 0.5
        answer = yield Probe(question, per_unit(question, kept))
        scores = sparse(kept.double(), answer.value(self.of).double(), self.alpha)
        return scores, f"{int((scores != 0).sum())} of {count} units have a score, {self.samples} samples"


def thinned(uniforms: Tensor) -> Tensor:
    """The whole input, then one random subset per row: the first number determines how many units are erased, the
    others which.

    [rows, 1 + units] -> [1 + rows, units] True for units that are kept
    """
    count = uniforms.shape[1] - 1
    gone = 1 + (uniforms[:, :1] * count).long()
    return torch.cat([torch.ones(1, count, dtype=torch.bool), ranks(uniforms[:, 1:]) >= gone])


def surrogate(kept: Tensor, values: Tensor, kernel_width: float, ridge: float) -> tuple[Tensor, Tensor]:
    """Coefficients of the units in the linear model near the whole input, and their standard errors."""
    # The cosine of the angle to the whole input is √(kept / all).
    distance = 100 * (1 - kept.mean(1).sqrt())
    weights = torch.exp(-((distance / kernel_width) ** 2) / 2)
    # The columns are centered at their weighted mean, so the intercept drops out and is not penalized.
    share = weights / weights.sum()
    return regress(kept - share @ kept, values - share @ values, weights, ridge)
