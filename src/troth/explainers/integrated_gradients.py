"""What the class's value gains along the straight path from a baseline to the input, shared among the tokens
(Sundararajan et al., 2017). Scores sum to f(input) − f(baseline) up to the gap that is reported.

The papers let every token travel, special ones and the second text too (`moves="all"`); by default only units do, so
that the scores of the units sum to what erasing them changes. Units that were erased before stay erased all along the
path, whatever moves, and score 0. The released code of Recursive ROAR and FMM multiplies each term by its position on
the path: `variant="released"`.
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
from troth.engine.looks import LOGITS, Ask, Gradient, Look, Of, Want
from troth.engine.many import Answers, AskMany, Looks
from troth.explainers import SignedExplainer
from troth.explainers._players import faded
from troth.maskings.mix import Mix, Reference


@cache
def quadrature(steps: int, rule: Literal["right", "gauss_legendre"]) -> tuple[Tensor, Tensor]:
    """Where on [0, 1] the gradient is taken, and how much each place counts. -> [steps], [steps]"""
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
    of: Of = "logit"
    normalize: bool = False  # divide by the L2 norm, as the AML tables do
    variant: Literal["paper", "released"] = "paper"

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise TrothError(f"integrated_gradients: steps must be at least 1, not {self.steps}")

    def passes(self, n_units: int) -> int:
        return 2 * self.steps

    def ask(self, question: Question) -> Ask[Attribution]:
        path = Mix(reference=self.baseline)
        places, weights = quadrature(self.steps, self.rule)
        everything = self.moves == "all"
        want = Gradient(of=self.of, reference=self.baseline, l2=False, prompt=False)
        others = places if everything else None
        answer = yield Look(question, faded(question, places), path, want, others, distinct=True)
        # The right rule's last place is the input itself.
        ends = torch.tensor([0.0] if self.rule == "right" else [0.0, 1.0])
        change = yield Look(question, faded(question, ends), path, others=ends if everything else None)
        if self.variant == "released":
            weights = weights * places
        scores = (weights[:, None] * answer.units["dot"]).sum(0) * (question.left > 0)
        rest = float((weights * answer.rest["dot"]).sum()) if everything else 0.0
        start = change.value(self.of)[0]
        end = answer.value(self.of)[-1] if self.rule == "right" else change.value(self.of)[1]
        gap = float(scores.sum() + rest - (end - start))
        if self.normalize:
            scores = scores / scores.norm().clamp(min=1e-12)
        return Attribution(question, scores.numpy(), signed=self.signed, rest=rest, gap=gap)

    def ask_many(self, questions: Sequence[Question], whole: Answers | None) -> AskMany[list[Attribution]]:
        path = Mix(reference=self.baseline)
        places, weights = quadrature(self.steps, self.rule)
        ends = torch.tensor([0.0] if self.rule == "right" else [0.0, 1.0])
        want = Gradient(of=self.of, reference=self.baseline, l2=False, prompt=False)
        everything = self.moves == "all"
        answer = yield _paths(questions, places, path, want, everything)
        change = yield _paths(questions, ends, path, LOGITS, everything)
        if self.variant == "released":
            weights = weights * places
        at_ends = change.value(self.of).reshape(len(questions), len(ends))
        end = answer.value(self.of)[self.steps - 1 :: self.steps] if self.rule == "right" else at_ends[:, 1]
        # Text by text: how many numbers stand side by side changes the order in which torch adds them up.
        own = [
            (weights[:, None] * dots[:, : question.n_units]).sum(0) * (question.left > 0)
            for dots, question in zip(torch.split(answer.units["dot"], self.steps), questions, strict=True)
        ]
        rests = torch.zeros(len(questions))
        if everything:
            rests = torch.stack([(weights * dots).sum() for dots in torch.split(answer.rest["dot"], self.steps)])
        sums = torch.stack([row.sum() for row in own]) + rests
        gaps = (sums.numpy() - (end - at_ends[:, 0])).tolist()
        if self.normalize:
            own = [row / row.norm().clamp(min=1e-12) for row in own]
        return [
            Attribution(question, row.numpy(), signed=self.signed, rest=rest, gap=gap)
            for question, row, rest, gap in zip(questions, own, rests.tolist(), gaps, strict=True)
        ]


def _paths(questions: Sequence[Question], places: Tensor, path: Mix, want: Want, everything: bool) -> Looks:
    """Every unit that is still there at each place of each text's path, perhaps with the tokens in no unit."""
    rows = np.full(len(questions), len(places))
    n_units = np.array([question.n_units for question in questions])
    others = np.tile(places.numpy(), len(questions))
    keep = np.repeat(others, np.repeat(n_units, rows))
    if any(question.base is not None for question in questions):
        gone = [np.tile(question.left.numpy() <= 0, len(places)) for question in questions]
        keep[np.concatenate(gone)] = 1  # as in `faded`
    return Looks(questions, keep, rows, path, want, distinct=True, others=others if everything else None)
