"""The embedding tables, layers and head of a known encoder, as the modules that the user's model has now.

Nothing is copied, so changes to the weights between two calls take effect. If a module is not the plain one of
transformers (adapters, quantized layers, hooks, a custom forward), the model reads its texts itself.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

# The attribute names of each family, by class name.
_BERT_LIKE = ("Bert", "Roberta", "XLMRoberta", "Camembert", "Electra")
_DISTILBERT = ("DistilBert",)
_POOLED = ("Bert",)  # a linear classifier on top of a pooler
FAMILIES = (*_BERT_LIKE, *_DISTILBERT)

_ACTIVATIONS = {  # modules of transformers that equal a torch function
    "GELUActivation": "none",
    "GELU": "none",
    "GELUTanh": "tanh",
    "ReLU": "relu",
}
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@dataclass(frozen=True, eq=False)
class EncoderLayer:
    """h = LayerNorm(x + output(attention(query x, key x, value x))); y = LayerNorm(h + down(gelu(up h)))"""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    output: nn.Linear
    attention_norm: nn.LayerNorm
    up: nn.Linear
    down: nn.Linear
    norm: nn.LayerNorm
    activation: str  # "none" or "tanh": a GELU; "relu"


@dataclass(frozen=True, eq=False)
class EncoderParts:
    """The parts of an encoder in the order in which a text passes through them."""

    words: nn.Embedding
    positions: nn.Embedding
    first_position: int
    types: nn.Embedding | None
    norm: nn.LayerNorm
    projection: nn.Linear | None  # if the word vectors have another size than the hidden states (ELECTRA)
    layers: tuple[EncoderLayer, ...]
    heads: int
    head: Callable[[Tensor], Tensor]  # [rows, 1, hidden] -> [rows, classes]

    def modules(self) -> Iterator[nn.Module]:
        """The modules that are replaced by our own arithmetic, so that their types must be torch's own."""
        for part in (self, *self.layers):
            yield from (value for value in vars(part).values() if isinstance(value, nn.Module))


def unchanged_modules(network: nn.Module) -> list[nn.Module] | None:
    """All modules; None if one has hooks or a custom forward.

    Like `network.modules()`, which takes longer than a small model does.
    """
    modules, waiting = [], [network]
    while waiting:
        module = waiting.pop()
        if "forward" in vars(module) or any(vars(module)[hooks] for hooks in _HOOKS):
            return None
        modules.append(module)
        waiting.extend(child for child in module._modules.values() if child is not None)
    return modules


def parts_of(network: Any) -> EncoderParts | None:
    """The parts of a network of a known family, if all its modules are torch's own."""
    family = type(network).__name__.removesuffix("ForSequenceClassification")
    ours = type(network).__module__.startswith("transformers.models.")
    if not ours or f"{family}ForSequenceClassification" != type(network).__name__ or family not in FAMILIES:
        return None
    try:
        parts = _taken_apart(network, family)
    except (AttributeError, KeyError):
        return None  # another version of transformers, or a part that the user has replaced
    plain = (nn.Linear, nn.Embedding, nn.LayerNorm)
    return parts if parts.layers and all(type(module) in plain for module in parts.modules()) else None


def _taken_apart(network: Any, family: str) -> EncoderParts:
    body, config = network.base_model, network.config
    if getattr(config, "is_decoder", False) or getattr(config, "position_embedding_type", "absolute") != "absolute":
        raise AttributeError(family)
    tables = body.embeddings
    distilled = family in _DISTILBERT
    return EncoderParts(
        words=tables.word_embeddings,
        positions=tables.position_embeddings,
        first_position=0 if (padding := tables.position_embeddings.padding_idx) is None else padding + 1,
        types=None if distilled else tables.token_type_embeddings,
        norm=tables.LayerNorm,
        projection=getattr(body, "embeddings_project", None),
        layers=tuple(map(_distilbert, body.transformer.layer) if distilled else map(_bert, body.encoder.layer)),
        heads=config.num_attention_heads,
        head=_head(network, family),
    )


def _bert(layer: Any) -> EncoderLayer:
    attention = layer.attention
    return EncoderLayer(
        attention.self.query, attention.self.key, attention.self.value, attention.output.dense,
        attention.output.LayerNorm, layer.intermediate.dense, layer.output.dense, layer.output.LayerNorm,
        _ACTIVATIONS[type(layer.intermediate.intermediate_act_fn).__name__],
    )  # fmt: skip


def _distilbert(layer: Any) -> EncoderLayer:
    attention = layer.attention
    return EncoderLayer(
        attention.q_lin, attention.k_lin, attention.v_lin, attention.out_lin, layer.sa_layer_norm, layer.ffn.lin1,
        layer.ffn.lin2, layer.output_layer_norm, _ACTIVATIONS[type(layer.ffn.activation).__name__],
    )  # fmt: skip


def _head(network: Any, family: str) -> Callable[[Tensor], Tensor]:
    """The model's own head, which reads the first token."""
    classifier = network.classifier
    if family in _POOLED:
        pooler = network.base_model.pooler
        return lambda states: classifier(pooler(states))
    if family in _DISTILBERT:
        before = network.pre_classifier
        return lambda states: classifier(torch.relu(before(states[:, 0])))
    return lambda states: classifier(states)
