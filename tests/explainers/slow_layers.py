"""Post-LayerNorm models with weights everywhere, and their layers as plain arrays, for twins written token by token."""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace

import numpy as np
import torch

from fakes import hf_model, tokenizer_for
from troth.models.encoder import Encoder

POST_NORM = ("bert", "roberta", "xlm_roberta", "distilbert")
OTHERS = ("albert", "electra", "deberta_v2", "modernbert")
TEXTS = [
    "a good film with a bad ending",
    "the soup was cold",
    ("is the film good ?", "the book was better , honestly ."),
]


@lru_cache
def model_of(family: str, seed: int = 0) -> Encoder:
    """A random model whose biases, γ and β are neither 0 nor 1."""
    network = hf_model(family, seed=seed)
    torch.manual_seed(seed + 1)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if parameter.dim() == 1:
                parameter.normal_(1.0 if name.endswith(("LayerNorm.weight", "norm.weight")) else 0.0, 0.4)
    return Encoder(network, tokenizer_for(family), name=f"tiny {family}")


def array(tensor):
    return tensor.detach().double().numpy()


_BERT = {
    "value": "attention.self.value", "output": "attention.output.dense", "norm_1": "attention.output.LayerNorm",
    "up": "intermediate.dense", "down": "output.dense", "norm_2": "output.LayerNorm",
}  # fmt: skip
_DISTILBERT = {
    "value": "attention.v_lin", "output": "attention.out_lin", "norm_1": "sa_layer_norm",
    "up": "ffn.lin1", "down": "ffn.lin2", "norm_2": "output_layer_norm",
}  # fmt: skip


def layers_of(model: Encoder) -> list[SimpleNamespace]:
    """The weights of every layer, by the names of their families."""
    network, found = model.model, []
    distil = network.config.model_type == "distilbert"
    for block in network.distilbert.transformer.layer if distil else network.base_model.encoder.layer:
        act = block.ffn.activation if distil else block.intermediate.intermediate_act_fn
        layer = SimpleNamespace(heads=2, act=activation(act))
        for name, path in (_DISTILBERT if distil else _BERT).items():
            module = block.get_submodule(path)
            eps = getattr(module, "eps", None)
            setattr(layer, name, SimpleNamespace(w=array(module.weight), b=array(module.bias), eps=eps))
        found.append(layer)
    return found


def activation(function):
    return lambda x: array(function(torch.tensor(x)))


def seen(model: Encoder, ids, token_types=None):
    """Hidden states, attention weights and logits of one text, by a plain call."""
    extra = {} if token_types is None else {"token_type_ids": torch.as_tensor(token_types)[None]}
    with model.at_rest(attentions=True), torch.no_grad():
        output = model.model(
            input_ids=torch.as_tensor(ids)[None], output_attentions=True, output_hidden_states=True, **extra
        )
    hidden = [array(states[0]) for states in output.hidden_states]
    return hidden, [array(weights[0]) for weights in output.attentions], array(output.logits[0])


def norm_linear(norm, part, whole):
    sigma = np.sqrt(((whole - whole.mean()) ** 2).mean() + norm.eps)
    return (part - part.mean()) / sigma * norm.w


def attention_part(layer, states, attention, i, j):
    """What token i gets from token j: its value, bias inside, head by head, and the residual from itself."""
    size = states.shape[1] // layer.heads
    value = layer.value.w @ states[j] + layer.value.b
    part = np.zeros(states.shape[1])
    for head in range(layer.heads):
        here = slice(head * size, (head + 1) * size)
        part += attention[head, i, j] * (layer.output.w[:, here] @ value[here])
    return part + states[i] if i == j else part


def rolled_out(matrices):
    """Row 0 of the product of the layers' matrices, the last layer first."""
    product = np.eye(len(matrices[0]))
    for matrix in matrices:
        product = matrix @ product
    return product[0]
