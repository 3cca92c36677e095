"""The change of the class's value as the unit alone moves from the mask token to its word vector, while the other units
do not change (Enguehard, 2023): each score is f(input) − f(unit masked) up to the error of the quadrature; the sum of
these errors is the gap.

Word vectors move, at Gauss–Legendre points; the tokens of a word move together. The paper's code explains the largest
logit and divides by the L2 norm: `of="largest_logit", normalize=True`.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import Attribution, Question
from troth.engine.probes import Of, Probe, keep_all, keep_without_each
from troth.engine.routines import Routine, per_text
from troth.explainers import SignedExplainer
from troth.explainers._gradient_readout import GradientReadout
from troth.explainers._players import players
from troth.explainers.integrated_gradients import quadrature
from troth.maskings.mix import Mix, Reference

_ELEMENTS = 1 << 20  # entries of `keep` per probe, so that the paths of a long text do not fill the memory


@dataclass(frozen=True)
class SequentialIntegratedGradients(SignedExplainer):
    formula = "sᵢ = (xᵢ − m) · ∫₀¹ ∂f/∂xᵢ at x with unit i at m + t (xᵢ − m) dt"
    pitfalls = "Takes 50 gradients per unit, for nearly the same scores as leave_one_out with the mask token."

    steps: int = 50
    baseline: Reference = "mask"
    rule: Literal["right", "gauss_legendre"] = "gauss_legendre"
    of: Of = "logit"
    normalize: bool = False  # divide by the L2 norm, as the AML tables do

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise TrothError(f"sequential_integrated_gradients: steps must be at least 1, not {self.steps}")

    def passes(self, n_units: int) -> int:
        return 2 * self.steps * n_units

    @per_text
    def ask(self, question: Question) -> Routine[Attribution]:
        path = Mix(reference=self.baseline)
        places, weights = quadrature(self.steps, self.rule)
        readout = GradientReadout(of=self.of, reference=self.baseline, l2=False, prompt=False)
        scores = torch.zeros(question.n_units)
        traveling = players(question)
        size = max(1, _ELEMENTS // max(1, self.steps * question.n_units))
        for units in torch.split(traveling, size) if len(traveling) else ():
            answer = yield Probe(question, _paths(units, places, question.n_units), path, readout)
            dots = answer.units["dot"].view(len(units), self.steps, question.n_units)
            own = dots.gather(2, units[:, None, None].expand(-1, self.steps, 1))[..., 0]  # [units, steps]
            scores[units] = (own * weights).sum(1)
        ends = yield Probe(question, torch.cat([keep_all(question), keep_without_each(question)[traveling]]), path)
        value = ends.value(self.of)
        gap = float(scores.sum() - (value[0] - value[1:]).sum())
        if self.normalize:
            scores = scores / scores.norm().clamp(min=1e-12)
        return Attribution(question, scores.numpy(), signed=self.signed, gap=gap)


def _paths(units: Tensor, places: Tensor, n_units: int) -> Tensor:
    """[units * steps, n_units] One path per unit, on which only that unit fades."""
    keep = torch.ones(len(units), len(places), n_units)
    keep.scatter_(2, units[:, None, None].expand(-1, len(places), 1), places[None, :, None].expand(len(units), -1, 1))
    return keep.view(-1, n_units)
