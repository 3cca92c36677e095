"""Facts about single model families that cannot be probed, by `config.model_type` or by attributes of the network; each
entry gives the reason. Everything else is probed on first use (`_first_use`).
"""

import inspect
import re
from typing import Any

# Our own models, and the module that registers them with the transformers Auto classes.
OWN = {"bilstm_attention": "troth.models.bilstm_attention"}

# Families whose forward pass has no step that depends on computed values, so vmap can map it over weights (tested).
MAPPED = ("bert", "roberta", "distilbert", "electra")

# Families that need two additive masks: for layers with full attention and for layers with a sliding window. A text
# shorter than the window would not show the difference.
WINDOWED_MASK = ("modernbert",)

# Families whose attention is softmax(q · k · scaling + mask) · v and nothing else, so our function can replace it.
PLAIN_ATTENTION = ("gpt2", "llama", "mistral", "qwen2", "qwen3")

# Families that have a causal class in transformers, but are encoders that generate no sensible text.
NOT_WRITERS = ("bert", "roberta")

# Post-LayerNorm layers that can be decomposed, with the names of BERT or of DistilBERT.
BERT_LAYERS = ("bert", "roberta", "xlm-roberta", "camembert")
DISTILBERT_LAYERS = ("distilbert",)

# The classification head has a pooler below it in BERT, and a dense layer inside it in RoBERTa and its relatives.
POOLED_HEAD = ("bert",)

# A block of a network in the names of its parameters: "bert.encoder.layer.3.", "transformer.h.3.", "…block.3.".
BLOCK = re.compile(r"^(.*?\.(?:layers?|h|block|albert_layer_groups)\.\d+)\.")


def reads_both_ways(config: Any) -> bool:
    """Whether tokens attend to later ones, as in families with a masked language model."""
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
    """The first token's position in models that derive positions from ids; None if positions are plain indices.

    RoBERTa and its relatives reserve a position for padding, start after it, and skip every padding id.
    """
    if not takes(network, "position_ids"):
        return None
    for module in network.modules():
        place = getattr(getattr(module, "position_embeddings", None), "padding_idx", None)
        if place is not None:
            return int(place) + 1
    return None


def has_rms_norm(network: Any) -> bool:
    """Whether layers divide vectors by their norm, as in Llama and its relatives."""
    return any("RMSNorm" in type(module).__name__ for module in network.modules())


def is_block_sparse(network: Any) -> bool:
    """Whether attention is block-sparse (BigBird): then the output of a row depends on the batch's length."""
    return getattr(network.base_model, "attention_type", None) == "block_sparse"


def sees_only_parts(network: Any, length: int) -> bool:
    """Whether some layers attend only to parts of a text of this length, in a way that our masks would not respect.

    A trial would need a text of that length.
    """
    window = getattr(network.config, "sliding_window", None)
    windowed = window is not None and window < length and network.config.model_type not in WINDOWED_MASK
    return windowed or is_block_sparse(network)


def reach(config: Any) -> int:
    """The largest number of tokens that the configuration says are read at once: chunks, windows, blocks, strides."""
    names = re.compile("chunk|window|block|stride|segment")
    values = [value for name, value in vars(config).items() if names.search(name)]
    flat = [number for value in values for number in (value if isinstance(value, list) else [value])]
    return max((number for number in flat if type(number) is int), default=0)


def reads_ids_beside_vectors(network: Any) -> bool:
    """Whether ids are needed beside word vectors: our BiLSTM tells words from special tokens by them."""
    return bool(getattr(network.base_model, "reads_ids_beside_vectors", False))
