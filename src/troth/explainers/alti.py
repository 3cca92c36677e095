"""How much of the token is mixed into the state that the classifier reads, by ALTI (Ferrando et al., 2022): in each
layer, a token's share is the amount by which its contribution reduces the L1 distance to the new state; the layers'
matrices are multiplied.

A layer is its attention block: T_j is the contribution of token j including the value bias, with the residual for j =
i, through the linear part of the first LayerNorm, whose output is y. Shares max(0, ‖y‖₁ − ‖y − T_j‖₁) are divided by
their sum.
"""

from dataclasses import dataclass

from torch import Tensor

from troth.core.types import Attribution, Question
from troth.engine.probes import Probe, keep_all
from troth.engine.routines import Routine, per_text
from troth.explainers import Explainer
from troth.explainers._layers import Layer, Rollout


@dataclass(frozen=True)
class Shares(Rollout):
    name = "alti"

    def weigh(self, layer: Layer, parts: Tensor, whole: Tensor) -> Tensor:
        transformed = layer.norm_1.linear(parts, whole[:, :, None])
        state = layer.norm_1(whole)[:, :, None]
        nearer = (state.abs().sum(-1) - (state - transformed).abs().sum(-1)).clamp(min=0)
        # Rows whose shares are all 0 remain 0.
        return nearer / nearer.sum(-1, keepdim=True).clamp(min=1e-30)


@dataclass(frozen=True)
class Alti(Explainer):
    signed = False
    formula = "s = (A_L · … · A₁)[c],  A[i, j] ∝ max(0, ‖yᵢ‖₁ − ‖yᵢ − Tⱼ‖₁)"
    pitfalls = "Shows what is mixed in, not whether it supports the class: the scores are the same for every class."

    @per_text
    def ask(self, question: Question) -> Routine[Attribution]:
        answer = yield Probe(question, keep_all(question), readout=Shares())
        rest = float(answer.rest["reach"][0])
        return Attribution(question, answer.units["reach"][0].numpy(), signed=self.signed, rest=rest)
