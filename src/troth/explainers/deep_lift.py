"""The token's contribution to the difference of the class's value from its value at a reference, by DeepLift's rescale
rule (Shrikumar et al., 2017). Scores sum to f(input) − f(reference) up to the reported gap.

The paper has rules for sums and elementwise functions only; troth adds exact rules for the products in attention,
softmax and LayerNorm, where plain derivatives, as in Captum, would violate the sum. Positions and token types are
fixed, and by default so are tokens outside all units (`moves="all"` moves them too, except the prompt). Units that are
already erased stay erased and score 0.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.outputs import value_of
from troth.core.types import PROMPT, Attribution, Question, Rows, spread
from troth.engine.probes import Probe, Reading, Readout, at_least_single, keep_all
from troth.engine.routines import Routine, per_text
from troth.explainers import SignedExplainer
from troth.explainers._multipliers import multipliers
from troth.maskings.mix import Reference, reference_vector
from troth.models import TextClassifier

_Of = Literal["logit", "probability", "log_probability"]
_Moves = Literal["units", "all"]


@dataclass(frozen=True)
class Lift(Readout):
    """Multiplier · (x − reference) for every token, and the difference between their sum and the change of the
    value.
    """

    backward = True
    attentions = True  # a fused attention kernel cannot be traced

    of: _Of
    baseline: Reference
    moves: _Moves

    def read(self, model: TextClassifier, rows: Rows) -> Reading:
        logits: list[Tensor] = []

        def value(vectors: Tensor) -> Tensor:
            logits.append(model.forward(replace(rows, embeddings=vectors, prompt_is_fixed=True)).logits)
            return value_of(self.of, logits[-1], rows.target, rows.against, model.outputs)

        now = rows.vectors(model).detach()
        moving = rows.units >= 0 if self.moves == "units" else rows.real & (rows.units != PROMPT)
        if rows.kept is not None:  # units that were erased before are not moved
            moving = moving & (spread(rows.kept.to(rows.units.device), rows.units) > 0)
        before = torch.where(moving[..., None], reference_vector(model, self.baseline).to(now.dtype), now)
        at_input, at_reference, factors = multipliers(value, now, before)
        scores = (at_least_single(factors) * at_least_single(now - before)).sum(-1)
        change = at_input - at_reference
        gap = scores.sum(1) - change
        # Rounding errors grow with the scores, not with their sum, which may be 0 by chance.
        size = torch.maximum(scores.abs().sum(1), change.abs())
        allowed = max(0.01, 16 * torch.finfo(now.dtype).eps)
        if bool((gap.abs() > allowed * size).any()):
            worst = int((gap.abs() / size).argmax())
            single = now.dtype in (torch.float32, torch.float64)
            raise TrothError(
                f"deep_lift cannot follow every operation of {model.name}: its scores miss a change of "
                f"{float(change[worst]):.2g} by {float(gap[worst]):.2g}; "
                f"{'' if single else 'load it with dtype=float32 or '}use integrated_gradients"
            )
        return Reading(logits[-1].detach(), {"scores": scores}, {"gap": gap})


@dataclass(frozen=True)
class DeepLift(SignedExplainer):
    formula = "sᵢ = mᵢ · (xᵢ − rᵢ),  m from the rescale rule,  Σᵢ sᵢ = f(x) − f(r) + gap"
    pitfalls = "Depends on the reference: by default all word vectors are 0, an input that no model was trained on."

    baseline: Reference = "zero"
    moves: _Moves = "units"
    of: _Of = "logit"

    @per_text
    def ask(self, question: Question) -> Routine[Attribution]:
        answer = yield Probe(question, keep_all(question), readout=Lift(self.of, self.baseline, self.moves))
        rest = float(answer.rest["scores"][0]) if self.moves == "all" else 0.0
        gap = float(answer.rows["gap"][0])
        return Attribution(question, answer.units["scores"][0].numpy(), signed=self.signed, rest=rest, gap=gap)
