"""All that is known of single model families, by `config.model_type` or by what a network looks like; each entry with
the reason why it cannot be tried. Everything else is tried on first use (`_first_use`).
"""

import inspect
import re
from typing import Any

# Models of ours and the module that makes the transformers Auto classes know them.
OWN = {"bilstm_attention": "troth.models.bilstm_attention"}

# Their forward pass has no step that depends on the values it computes, so vmap can map it over weights (tested).
MAPPED = ("bert", "roberta", "distilbert", "electra")

# They need an additive mask twice: for layers that see everything and for layers that see only a window. A text shorter
# than the window would not show it.
WINDOWED_MASK = ("modernbert",)

# Attention is softmax(q · k · scaling + mask) · v and nothing else, so ours can stand in for it.
PLAIN_ATTENTION = ("gpt2", "llama", "mistral", "qwen2", "qwen3")

# They have a causal class in transformers, but are encoders that write nothing sensible.
NOT_WRITERS = ("bert", "roberta")

# Post-LayerNorm layers that can be taken apart, named as in BERT or as in DistilBERT.
BERT_LAYERS = ("bert", "roberta", "xlm-roberta", "camembert")
DISTILBERT_LAYERS = ("distilbert",)

# The classification head has a pooler below it in BERT, a dense layer inside it in RoBERTa and its relatives.
POOLED_HEAD = ("bert",)

# One block of a network in the names of its parameters: "bert.encoder.layer.3.", "transformer.h.3.", "…block.3.".
BLOCK = re.compile(r"^(.*?\.(?:layers?|h|block|albert_layer_groups)\.\d+)\.")


def reads_both_ways(config: Any) -> bool:
    """Whether every token sees those behind it: a family with a masked language model does."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    return config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES


def writes(config: Any) -> bool:
    """Whether the family has causal language models."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and config.model_type not in NOT_WRITERS


def takes(network: Any, argument: str) -> bool:
    """Whether a call of the network has an argument of this name."""
    return argument in inspect.signature(network.forward).parameters


def first_position(network: Any) -> int | None:
    """The first token's position in models that derive positions from ids; None where they just count.

    RoBERTa and its relatives keep a place in the table for padding, begin after it, and skip every padding id.
    """
    if not takes(network, "position_ids"):
        return None
    for module in network.modules():
        place = getattr(getattr(module, "position_embeddings", None), "padding_idx", None)
        if place is not None:
            return int(place) + 1
    return None


def has_rms_norm(network: Any) -> bool:
    """Llama and its relatives divide a vector by its size."""
    return any("RMSNorm" in type(module).__name__ for module in network.modules())


def is_block_sparse(network: Any) -> bool:
    """BigBird: how it reads every row of a batch depends on how long the batch is."""
    return getattr(network.base_model, "attention_type", None) == "block_sparse"


def sees_only_parts(network: Any, length: int) -> bool:
    """Whether some layers see only a part of a text of so many tokens, in a way that a mask of ours would not keep to.

    A trial would need a text as long as that.
    """
    window = getattr(network.config, "sliding_window", None)
    windowed = window is not None and window < length and network.config.model_type not in WINDOWED_MASK
    return windowed or is_block_sparse(network)


def reach(config: Any) -> int:
    """The largest number of tokens that the configuration says are read in one go: chunks, windows, blocks, strides."""
    names = re.compile("chunk|window|block|stride|segment")
    values = [value for name, value in vars(config).items() if names.search(name)]
    flat = [number for value in values for number in (value if isinstance(value, list) else [value])]
    return max((number for number in flat if type(number) is int), default=0)


def reads_ids_beside_vectors(network: Any) -> bool:
    """Our BiLSTM needs the ids, too, to tell words from special tokens."""
    return bool(getattr(network.base_model, "reads_ids_beside_vectors", False))
