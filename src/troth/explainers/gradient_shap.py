"""The mean over random samples of gradient · (input − baseline), with the gradient at a random place on the path from
the baseline to the input (Lundberg & Lee, 2017; GradientShap in Captum).

Each sample draws its baseline from {reference, input} and its place on the path uniformly, so the expected score is
half of integrated gradients. A sample whose baseline is the input contributes exactly 0 and is not computed. Units that
are already erased stay erased and score 0.
"""

from dataclasses import dataclass
from typing import Literal

import torch

from troth.core.errors import TrothError
from troth.core.types import Attribution, Question
from troth.engine.probes import Of, Probe
from troth.engine.routines import Routine, per_text
from troth.explainers import SignedExplainer
from troth.explainers._gradient_readout import GradientReadout
from troth.explainers._players import faded
from troth.maskings.mix import Mix, Reference


@dataclass(frozen=True)
class GradientShap(SignedExplainer):
    formula = "sᵢ = mean over samples of (xᵢ − bᵢ) · ∂f/∂xᵢ at b + t (x − b),  b from {r, x},  t from [0, 1]"
    pitfalls = "Twenty samples are noisy: raise samples, or use integrated_gradients, which does not sample."

    samples: int = 20
    baseline: Reference = "zero"
    moves: Literal["units", "all"] = "units"  # "all": tokens outside all units move, too
    of: Of = "logit"

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise TrothError(f"gradient_shap: samples must be at least 1, not {self.samples}")

    def passes(self, n_units: int) -> int:
        return 2 * self.samples

    @per_text
    def ask(self, question: Question) -> Routine[Attribution]:
        coin, place = question.draws("gradient_shap").uniforms(self.samples, 2).T
        places = place[coin < 0.5]
        if len(places) == 0:
            return Attribution(question, torch.zeros(question.n_units).numpy(), signed=self.signed)
        keep = faded(question, places)
        readout = GradientReadout(of=self.of, reference=self.baseline, l2=False, prompt=False)
        others = places if self.moves == "all" else None
        answer = yield Probe(question, keep, Mix(reference=self.baseline), readout, non_unit_keep=others)
        scores = answer.units["dot"].sum(0) / self.samples * (question.left > 0)
        rest = 0.0 if others is None else float(answer.rest["dot"].sum() / self.samples)
        return Attribution(question, scores.numpy(), signed=self.signed, rest=rest)
