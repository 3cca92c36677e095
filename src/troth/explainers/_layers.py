"""Post-LayerNorm encoders decomposed into what each token contributes to each other token in a layer.

The full tensor would be [rows, queries, keys, hidden], much larger than the model's own states, so queries are
processed in chunks.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from troth.core.errors import TrothError
from troth.core.types import Rows
from troth.engine.probes import Reading, Readout, at_least_single
from troth.models import TextClassifier, _placement, families, refuse

CHUNK_BYTES = {"cpu": 4 << 20}  # twice as fast if it fits into the processor's cache
_OTHER_CHUNK_BYTES = 256 << 20

Activation = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Linear:
    weight: Tensor  # [outputs, inputs]
    bias: Tensor  # [outputs]

    def __call__(self, inputs: Tensor) -> Tensor:
        return nn.functional.linear(inputs, self.weight, self.bias)


@dataclass(frozen=True, eq=False)
class Norm:
    """LayerNorm without its bias β, which is linear in its input once the standard deviation of the whole is known."""

    scale: Tensor  # [hidden] γ
    bias: Tensor  # [hidden] β
    eps: float

    def linear(self, parts: Tensor, whole: Tensor) -> Tensor:
        """Centers each part by its own mean, divides by the standard deviation of the whole, and multiplies by γ; [...,
        hidden].
        """
        deviation = (whole.var(-1, correction=0, keepdim=True) + self.eps).sqrt()
        return (parts - parts.mean(-1, keepdim=True)) / deviation * self.scale

    def __call__(self, whole: Tensor) -> Tensor:
        return self.linear(whole, whole) + self.bias


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer: attention, residual, norm; feed-forward, residual, norm."""

    heads: int
    value: Linear
    output: Linear
    norm_1: Norm
    up: Linear
    activation: Activation
    down: Linear
    norm_2: Norm

    @property
    def hidden(self) -> int:
        return len(self.output.bias)

    def handed(self, states: Tensor) -> Tensor:
        """What each token contributes through each head, including the value bias. -> [rows, length, heads, hidden]"""
        rows, length, hidden = states.shape
        values = self.value(states).view(rows, length, self.heads, -1)
        return torch.einsum("rjhd,ohd->rjho", values, self.output.weight.view(hidden, self.heads, -1))

    def attention_parts(self, handed: Tensor, states: Tensor, attention: Tensor, some: slice) -> Tensor:
        """What some queries receive from every token, and from themselves through the residual, without the bias of
        W_O.

        Attention is [rows, heads, length, length], the result [rows, queries, length, hidden].
        """
        parts = torch.einsum("rhij,rjho->rijo", attention[:, :, some], handed)
        queries = torch.arange(parts.shape[1], device=parts.device)
        parts[:, queries, queries + some.start] += states[:, some]
        return parts


@dataclass(frozen=True, eq=False)
class Head:
    """The classification head, which reads the first token's last state."""

    dense: Linear
    activation: Activation
    classifier: Linear


def take_apart(model: TextClassifier, asked_by: str) -> tuple[list[Layer], Head]:
    """The layers and the classification head of a BERT, RoBERTa or DistilBERT; an error names the model if it is
    another.
    """
    network = model.model
    if network is None:
        raise refuse(model.name, f"layers for {asked_by} to read", "use leave_one_out, lime or kernel_shap")
    if model.labels_words:
        raise TrothError(
            f"{asked_by} reads what reaches the first token; {model.name} is {model.kind}, which reads a word's own: "
            "use attention, integrated_gradients or leave_one_out"
        )
    if _placement.is_split(network):
        raise TrothError(
            f"{asked_by} reads the weights of all layers, and those of {model.name} are split over devices; load it "
            "without device_map, or use attention, integrated_gradients or leave_one_out"
        )
    kind = str(network.config.model_type)
    classifier = getattr(network, "classifier", None)
    if kind not in families.BERT_LAYERS + families.DISTILBERT_LAYERS or classifier is None:
        raise TrothError(
            f"{asked_by} reads BERT-, RoBERTa- and DistilBERT-like layers; {kind!r} has others: "
            "use attention, integrated_gradients or leave_one_out"
        )
    if kind in families.DISTILBERT_LAYERS:
        layers = [_distilbert_layer(layer, asked_by) for layer in network.distilbert.transformer.layer]
        dense, activation = network.pre_classifier, torch.relu
    else:
        layers = [_bert_layer(layer, asked_by) for layer in network.base_model.encoder.layer]
        pooled, activation = kind in families.POOLED_HEAD, torch.tanh
        dense = network.bert.pooler.dense if pooled else classifier.dense
        classifier = classifier if pooled else classifier.out_proj
    return layers, Head(_linear(dense, asked_by), activation, _linear(classifier, asked_by))


def _bert_layer(layer: Any, asked_by: str) -> Layer:
    attention = layer.attention
    return Layer(
        heads=attention.self.num_attention_heads,
        value=_linear(attention.self.value, asked_by),
        output=_linear(attention.output.dense, asked_by),
        norm_1=_norm(attention.output.LayerNorm),
        up=_linear(layer.intermediate.dense, asked_by),
        activation=layer.intermediate.intermediate_act_fn,
        down=_linear(layer.output.dense, asked_by),
        norm_2=_norm(layer.output.LayerNorm),
    )


def _distilbert_layer(layer: Any, asked_by: str) -> Layer:
    return Layer(
        heads=layer.attention.n_heads,
        value=_linear(layer.attention.v_lin, asked_by),
        output=_linear(layer.attention.out_lin, asked_by),
        norm_1=_norm(layer.sa_layer_norm),
        up=_linear(layer.ffn.lin1, asked_by),
        activation=layer.ffn.activation,
        down=_linear(layer.ffn.lin2, asked_by),
        norm_2=_norm(layer.output_layer_norm),
    )


def _linear(module: Any, asked_by: str) -> Linear:
    if not isinstance(module, nn.Linear):
        kind = type(module).__name__
        raise TrothError(f"{asked_by} reads plain linear layers, not {kind}; merge the adapter or load it unquantized")
    return Linear(at_least_single(module.weight.detach()), at_least_single(module.bias.detach()))


def _norm(module: nn.LayerNorm) -> Norm:
    return Norm(at_least_single(module.weight.detach()), at_least_single(module.bias.detach()), module.eps)


def held_bytes(layers: list[Layer], length: int) -> int:
    """Bytes per row: the states and attention weights of every layer, which are kept until all layers have been
    processed.
    """
    heads, hidden = sum(layer.heads for layer in layers), layers[0].hidden
    return 4 * length * (hidden * (len(layers) + 1) + heads * length)


def chunks(count: int, bytes_each: int, device: torch.device) -> Iterator[slice]:
    """Slices of rows or queries of bounded size."""
    step = max(1, CHUNK_BYTES.get(device.type, _OTHER_CHUNK_BYTES) // max(bytes_each, 1))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


@dataclass(frozen=True)
class Rollout(Readout):
    """How much of each token reaches the first token in the last layer: the product of the layers' token-to-token
    weights.
    """

    attentions = True
    about_target = False
    name: ClassVar[str]

    @abstractmethod
    def weigh(self, layer: Layer, parts: Tensor, whole: Tensor) -> Tensor:
        """The weight of each key for each query, given the attention's parts and their sum, the input of the first
        norm.

        [rows, queries, keys, hidden], [rows, queries, hidden] -> [rows, queries, keys]
        """

    def bytes_per_row(self, model: TextClassifier, length: int) -> int:
        layers, _ = take_apart(model, self.name)
        offered = 4 * length * layers[0].heads * layers[0].hidden  # `handed`, for one layer at a time
        return super().bytes_per_row(model, length) + held_bytes(layers, length) + offered

    def read(self, model: TextClassifier, rows: Rows) -> Reading:
        layers, _ = take_apart(model, self.name)
        with torch.no_grad():
            output = model.forward(rows, attentions=True, hidden=True)
            # The factors of the norms multiply over the layers and leave the range of single precision in deep models.
            reach = torch.zeros(rows.ids.shape, dtype=torch.float64, device=rows.ids.device)
            reach[:, 0] = 1
            for number in reversed(range(len(layers))):
                states, attention = at_least_single(output.hidden[number]), at_least_single(output.attentions[number])
                # In the last layer only the first token is read.
                queries = 1 if number == len(layers) - 1 else states.shape[1]
                reached = torch.zeros_like(reach)
                layer, handed = layers[number], layers[number].handed(states)
                for some in chunks(queries, 4 * states.numel(), states.device):
                    parts = layer.attention_parts(handed, states, attention, some)
                    weights = self.weigh(layer, parts, parts.sum(2) + layer.output.bias)
                    reached += torch.einsum("ri,rij->rj", reach[:, some], weights.double())
                reach = reached
        return Reading(output.logits, {"reach": reach * rows.real})
