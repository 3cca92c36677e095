"""The token's share of the change of the class's value along the straight path from a baseline to the input
(Sundararajan et al., 2017). Scores sum to f(input) − f(baseline) up to the reported gap.

The papers move every token, including special tokens and the second text (`moves="all"`). By default only units move,
so that their scores sum to the effect of erasing them. Units that are already erased score 0 and stay erased along
the path; in Recursive ROAR and FMM their mask tokens move like any other token (`erased="move"`), and their share is
part of the rest. The released code of both papers multiplies each term by its position on the path:
`variant="released"`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import Attribution, Question
from troth.engine.probes import LOGITS, Of, ProbeBatch, Readout
from troth.engine.routines import Routine
from troth.explainers import SignedExplainer
from troth.explainers._gradient_readout import GradientReadout
from troth.explainers._players import faded
from troth.maskings.mix import Mix, Reference


@cache
def quadrature(steps: int, rule: Literal["right", "gauss_legendre"]) -> tuple[Tensor, Tensor]:
    """The places on [0, 1] at which the gradient is computed, and their weights. -> [steps], [steps]"""
    if rule == "right":
        return torch.arange(1, steps + 1) / steps, torch.full((steps,), 1 / steps)
    places, weights = np.polynomial.legendre.leggauss(steps)
    return torch.from_numpy((places + 1) / 2).float(), torch.from_numpy(weights / 2).float()


@dataclass(frozen=True)
class IntegratedGradients(SignedExplainer):
    formula = "sᵢ = (xᵢ − bᵢ) · ∫₀¹ ∂f/∂xᵢ at b + t (x − b) dt,  Σᵢ sᵢ = f(x) − f(b) + gap"
    pitfalls = "Depends on the baseline. A large gap means too few steps: raise steps."

    steps: int = 20
    baseline: Reference = "zero"
    rule: Literal["right", "gauss_legendre"] = "right"
    moves: Literal["units", "all"] = "units"
    erased: Literal["stay", "move"] = "stay"  # units that were erased before the question was asked
    of: Of = "logit"
    normalize: bool = False  # divide by the L2 norm, as the AML tables do
    variant: Literal["paper", "released"] = "paper"

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise TrothError(f"integrated_gradients: steps must be at least 1, not {self.steps}")

    def passes(self, n_units: int) -> int:
        return 2 * self.steps

    def ask(self, questions: Sequence[Question]) -> Routine[list[Attribution]]:
        path = Mix(reference=self.baseline)
        places, weights = quadrature(self.steps, self.rule)
        # The last place of the right rule is the input itself.
        ends = torch.tensor([0.0] if self.rule == "right" else [0.0, 1.0])
        readout = GradientReadout(of=self.of, reference=self.baseline, l2=False, prompt=False)
        answers = yield self._paths(questions, places, path, readout)
        change = yield self._paths(questions, ends, path, LOGITS)
        if self.variant == "released":
            weights = weights * places
        at_ends = change.value(self.of).view(len(questions), len(ends))
        end = answers.value(self.of)[self.steps - 1 :: self.steps] if self.rule == "right" else at_ends[:, 1]
        dots, rests = (part["dot"].split(self.steps) for part in (answers.units, answers.rest))
        found = []
        for row, question in enumerate(questions):
            gains = (weights[:, None] * dots[row][:, : question.n_units]).sum(0)
            scores = gains * (question.left > 0)
            rest = float((weights * rests[row]).sum()) if self.moves == "all" else 0.0
            if self.erased == "move":
                rest += float(gains.sum() - scores.sum())
            gap = float(scores.sum() + rest - (end[row] - at_ends[row, 0]))
            if self.normalize:
                scores = scores / scores.norm().clamp(min=1e-12)
            found.append(Attribution(question, scores.numpy(), signed=self.signed, rest=rest, gap=gap))
        return found

    def _paths(self, questions: Sequence[Question], places: Tensor, path: Mix, readout: Readout) -> ProbeBatch:
        """Every moving unit at each place of each text's path; with moves="all" also the tokens outside all units."""
        widest = max(question.n_units for question in questions)
        along = np.tile(places.numpy(), len(questions))  # [rows]
        keep = np.repeat(along[:, None], widest, axis=1)
        for number, question in enumerate(questions):
            if question.base is not None and self.erased == "stay":
                start = number * len(places)
                keep[start : start + len(places), : question.n_units] = faded(question, places)
        non_units = along if self.moves == "all" else None
        counts = np.full(len(questions), len(places))
        return ProbeBatch(questions, keep, counts, path, readout, non_unit_keep=non_units, distinct=True)
