"""The token's contribution to the class's logit: the computation is decomposed into one vector per token, from the
embedding output to the classifier, by DecompX (Modarressi et al., 2023). The contributions, including those of special
tokens, sum to the logit.

Attention weights and the standard deviations in LayerNorm are treated as constants; an activation is replaced by the
line from the origin to its output; a bias is distributed over the contributions in proportion to |⟨contribution,
bias⟩|. In the first layer the value bias belongs to each token's contribution; in later layers it is distributed
together with the output bias, after the residual.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear

from troth.core.errors import TrothError
from troth.core.outputs import value_of
from troth.core.types import Attribution, Question, Rows
from troth.engine.probes import Probe, Reading, Readout, at_least_single, keep_all
from troth.engine.routines import Routine, per_text
from troth.explainers import SignedExplainer
from troth.explainers._layers import Activation, Head, Layer, Linear, Norm, chunks, held_bytes, take_apart
from troth.models import TextClassifier


@dataclass(frozen=True)
class Parts(Readout):
    """Every token's contribution to the target's logit; in a contrast, less its contribution to the other class's."""

    attentions = True

    def bytes_per_row(self, model: TextClassifier, length: int) -> int:
        layers, _ = take_apart(model, "decomp_x")
        # The parts of a layer, their values and the parts of the next layer: [length, length, hidden] each.
        parts = 3 * 4 * length**2 * layers[0].hidden
        return super().bytes_per_row(model, length) + held_bytes(layers, length) + parts

    def read(self, model: TextClassifier, rows: Rows) -> Reading:
        layers, head = take_apart(model, "decomp_x")
        with torch.no_grad():
            output = model.forward(rows, attentions=True, hidden=True)
            states = at_least_single(output.hidden[0])
            scores = states.new_zeros(rows.ids.shape)
            # One vector for each pair of tokens takes much more memory than the model's own states.
            for some in chunks(len(rows), 4 * states[0].numel() * states.shape[1], states.device):
                length = int(rows.lengths[some].max())
                attentions = [at_least_single(each[some, :, :length, :length]) for each in output.attentions]
                parts = _decompose(layers, head, states[some, :length], attentions, rows.real[some, :length])
                target, against = (chosen[some].repeat_interleave(length) for chosen in (rows.target, rows.against))
                values = value_of("logit", parts.flatten(0, 1), target, against, model.outputs)
                scores[some, :length] = values.view(-1, length)
            scores = scores * rows.real
            gap = scores.sum(1) - value_of("logit", output.logits, rows.target, rows.against, model.outputs)
            size = scores.abs().sum(1).clamp(min=1)
        if bool((gap.abs() > max(0.01, 16 * torch.finfo(output.logits.dtype).eps) * size).any()):
            raise TrothError(
                f"decomp_x cannot take {model.name} apart: the parts miss its logits by {float(gap.abs().max()):.2g}, "
                "so it is not built like its family; use integrated_gradients or deep_lift"
            )
        return Reading(output.logits, {"parts": scores}, {"gap": gap})


def _decompose(layers: list[Layer], head: Head, states: Tensor, attentions: list[Tensor], real: Tensor) -> Tensor:
    """Each token's contribution to every logit. [rows, length, hidden] embedding output -> [rows, length, classes]"""
    rows, length, hidden = states.shape
    parts = states.new_empty(0)  # becomes [rows, queries, length, hidden]: the contribution of token k to token i
    for number, (layer, attention) in enumerate(zip(layers, attentions, strict=True)):
        mix = _later_attention(layer, parts, attention) if number else _first_attention(layer, states, attention)
        queries = 1 if number == len(layers) - 1 else length  # in the last layer only the first token is read
        after = states.new_empty(rows, queries, length, hidden)
        for some in chunks(queries, 4 * rows * length * len(layer.up.bias), states.device):
            after[:, some] = _rest_of_layer(layer, mix(some), real)
        parts = after
    pooled = _bend(head.activation, _apply(head.dense, parts, real))
    return _apply(head.classifier, pooled, real)[:, 0]


_Mix = Callable[[slice], tuple[Tensor, Tensor]]  # for some queries: the parts, and the bias that is not distributed yet


def _first_attention(layer: Layer, states: Tensor, attention: Tensor) -> _Mix:
    handed = layer.handed(states)
    return lambda some: (layer.attention_parts(handed, states, attention, some), layer.output.bias)


def _later_attention(layer: Layer, parts: Tensor, attention: Tensor) -> _Mix:
    rows, length, _, hidden = parts.shape
    values = linear(parts, layer.value.weight).view(rows, length, length, layer.heads, -1)
    values = values.permute(0, 3, 1, 2, 4).flatten(3)  # [rows, heads, length, length · head size]

    def mix(some: slice) -> tuple[Tensor, Tensor]:
        mixed = (attention[:, :, some] @ values).view(rows, layer.heads, -1, length, hidden // layer.heads)
        mixed = mixed.permute(0, 2, 3, 1, 4).flatten(3)  # [rows, queries, length, hidden]
        return linear(mixed, layer.output.weight) + parts[:, some], layer.output(layer.value.bias)

    return mix


def _rest_of_layer(layer: Layer, mixed: tuple[Tensor, Tensor], real: Tensor) -> Tensor:
    parts = _normalize(layer.norm_1, _share(*mixed, real), real)
    inner = _bend(layer.activation, _apply(layer.up, parts, real))
    return _normalize(layer.norm_2, parts + _apply(layer.down, inner, real), real)


def _normalize(norm: Norm, parts: Tensor, real: Tensor) -> Tensor:
    return _share(norm.linear(parts, parts.sum(2, keepdim=True)), norm.bias, real)


def _apply(layer: Linear, parts: Tensor, real: Tensor) -> Tensor:
    return _share(linear(parts, layer.weight), layer.bias, real)


def _bend(activation: Activation, parts: Tensor) -> Tensor:
    """Multiplies each part by the slope of the line from the origin to the activation's output for the whole."""
    whole = parts.sum(2, keepdim=True)
    whole = torch.where(whole == 0, 1e-6, whole)
    return parts * (activation(whole) / whole)


def _share(parts: Tensor, bias: Tensor, real: Tensor) -> Tensor:
    """Distributes the bias over the parts by |⟨part, bias⟩|, or equally if all of these are 0."""
    weights = (parts @ bias).abs()  # [rows, queries, length]
    equal = real[:, None].to(weights.dtype)
    weights = torch.where(weights.sum(-1, keepdim=True) > 0, weights, equal)
    return torch.addcmul(parts, (weights / weights.sum(-1, keepdim=True))[..., None], bias)


@dataclass(frozen=True)
class DecompX(SignedExplainer):
    formula = "f(x) = Σᵢ sᵢ + parts of the special tokens"
    pitfalls = "Treats attention weights as constants, so a word's effect on attention is not part of its score."

    @per_text
    def ask(self, question: Question) -> Routine[Attribution]:
        answer = yield Probe(question, keep_all(question), readout=Parts())
        rest, gap = float(answer.rest["parts"][0]), float(answer.rows["gap"][0])
        return Attribution(question, answer.units["parts"][0].numpy(), signed=self.signed, rest=rest, gap=gap)
