"""How much of the token reaches the state that the classifier reads, by GlobEnc (Modarressi et al., 2022): in each
layer, the L2 norm of the vector that one token passes to another, through the residual and both LayerNorms; the layers'
matrices are multiplied.

The feed-forward block enters only through the statistics of the second LayerNorm. Norms are neither divided by their
sum nor combined with an identity matrix, so they grow with the number of layers: compare scores of the same model only.
"""

from dataclasses import dataclass

from torch import Tensor

from troth.core.types import Attribution, Question
from troth.engine.probes import Probe, keep_all
from troth.engine.routines import Routine, per_text
from troth.explainers import Explainer
from troth.explainers._layers import Layer, Rollout


@dataclass(frozen=True)
class Norms(Rollout):
    name = "glob_enc"

    def weigh(self, layer: Layer, parts: Tensor, whole: Tensor) -> Tensor:
        transformed = layer.norm_1.linear(parts, whole[:, :, None])
        state = layer.norm_1(whole)
        second = state + layer.down(layer.activation(layer.up(state)))
        lengths: Tensor = layer.norm_2.linear(transformed, second[:, :, None]).norm(dim=-1)
        return lengths


@dataclass(frozen=True)
class GlobEnc(Explainer):
    signed = False
    formula = "s = (N_L · … · N₁)[c],  N[i, j] = ‖what j passes to i‖₂"
    pitfalls = "Norms have no sign and do not depend on the class; they grow with depth: compare within one model only."

    @per_text
    def ask(self, question: Question) -> Routine[Attribution]:
        answer = yield Probe(question, keep_all(question), readout=Norms())
        scores, rest = answer.units["reach"][0], float(answer.rest["reach"][0])
        # Products over many layers can exceed single precision; only their ratios matter here.
        scale = max([1.0, rest / 1e38, *(scores / 1e38).tolist()])
        note = "" if scale == 1 else f"all scores were divided by {scale:.3g}"
        return Attribution(question, (scores / scale).numpy(), signed=self.signed, rest=rest / scale, note=note)
