"""All that is known of single model families, by `config.model_type` or by what a network looks like; each entry with
its reason. Everything else is asked of the model itself.
"""

import inspect
import re
from typing import Any

# Models of ours and the module that makes the transformers Auto classes know them.
OWN = {"bilstm_attention": "troth.models.bilstm_attention"}

# Their forward pass has no step that depends on the values it computes, so vmap can map it over weights (tested).
MAPPED = ("bert", "roberta", "distilbert", "electra")

# Their forward does not take position_ids: positions always count from 0.
NO_POSITION_IDS = ("distilbert",)

# Positions begin after the padding id, which has a place of its own in the table.
POSITIONS_AFTER_PADDING = ("roberta", "xlm-roberta", "camembert", "mpnet")

# Words are embedded in a size of their own (`embedding_size`), not in the hidden size.
OWN_EMBEDDING_SIZE = ("albert", "electra", "bilstm_attention")

# Their layers add a 4-D float mask to the attention logits as it is.
ADDITIVE_MASK = (
    "bert", "roberta", "xlm-roberta", "camembert", "distilbert", "albert", "electra", "mpnet", "modernbert",
)  # fmt: skip

# They need that mask twice: for layers that see everything and for layers that see only a window.
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


def first_position(network: Any) -> int | None:
    """The first token's position in models that derive positions from ids; None where they just count.

    RoBERTa and its relatives keep a place in the table for padding, begin after it, and skip every padding id.
    """
    if "position_ids" not in inspect.signature(network.forward).parameters:
        return None
    for module in network.modules():
        place = getattr(getattr(module, "position_embeddings", None), "padding_idx", None)
        if place is not None:
            return int(place) + 1
    return None


def has_global_attention(network: Any) -> bool:
    """Longformer: some tokens attend to all. Its default, the first token, needs ids, which word vectors lack."""
    return "global_attention_mask" in inspect.signature(network.forward).parameters


def has_rms_norm(network: Any) -> bool:
    """Llama and its relatives divide a vector by its size."""
    return any("RMSNorm" in type(module).__name__ for module in network.modules())


def averages_tokens(config: Any) -> bool:
    """ModernBERT's head may average all tokens, for which it reads the attention mask, too."""
    return getattr(config, "classifier_pooling", "cls") == "mean"


def is_block_sparse(network: Any) -> bool:
    """BigBird: how it reads every row of a batch depends on how long the batch is."""
    return getattr(network.base_model, "attention_type", None) == "block_sparse"


def reads_ids_beside_vectors(network: Any) -> bool:
    """Our BiLSTM needs the ids, too, to tell words from special tokens."""
    return bool(getattr(network.base_model, "reads_ids_beside_vectors", False))
