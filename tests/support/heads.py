"""Small random models with other heads than a text classifier's."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForTokenClassification,
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertModel,
    T5Config,
    T5ForConditionalGeneration,
)

import fakes
import troth

LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "I-ORG")


def spread_out(model: Any, size: float = 0.3) -> Any:
    """The model with weights that are spread out so that every input matters."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, size)
    return model.eval()


def token_network(labels: tuple[str, ...] = LABELS) -> Any:
    named = {"id2label": dict(enumerate(labels)), "label2id": {label: place for place, label in enumerate(labels)}}
    torch.manual_seed(0)
    config = BertConfig(**fakes.SIZES, vocab_size=len(fakes.tokenizer_for("bert")), num_labels=len(labels), **named)
    return spread_out(AutoModelForTokenClassification.from_config(config))


@lru_cache
def token_classifier(labels: tuple[str, ...] = LABELS) -> Any:
    return troth.load_model(token_network(labels), tokenizer=fakes.tokenizer_for("bert"))


@lru_cache
def seq2seq_network(family: str = "bart") -> Any:
    tokenizer = fakes.tokenizer_for("bert")
    own = {"vocab_size": len(tokenizer), "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    torch.manual_seed(0)
    if family == "t5":
        sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}
        return spread_out(T5ForConditionalGeneration(T5Config(**own, **sizes)))
    sizes = {"layers": 2, "attention_heads": 2, "ffn_dim": 32}
    both = {f"{part}_{name}": size for part in ("encoder", "decoder") for name, size in sizes.items()}
    config = BartConfig(**own, **both, d_model=16, max_position_embeddings=64, decoder_start_token_id=3)
    return spread_out(BartForConditionalGeneration(config))


@lru_cache
def seq2seq(family: str = "bart") -> Any:
    return troth.load_model(seq2seq_network(family), tokenizer=fakes.tokenizer_for("bert"), continuation="a bad book")


@lru_cache
def sentence_network() -> Any:
    torch.manual_seed(0)
    config = BertConfig(**fakes.SIZES, vocab_size=len(fakes.tokenizer_for("bert")))
    return spread_out(BertModel(config, add_pooling_layer=False))


@lru_cache
def similarity(pooling: str = "mean") -> Any:
    return troth.load_model(sentence_network(), tokenizer=fakes.tokenizer_for("bert"), pooling=pooling)


@lru_cache
def choice_network() -> Any:
    torch.manual_seed(0)
    config = BertConfig(**fakes.SIZES, vocab_size=len(fakes.tokenizer_for("bert")))
    return spread_out(AutoModelForMultipleChoice.from_config(config))


CHOICES = ("the book was better", "nobody should", "a joy to use")


@lru_cache
def multiple_choice() -> Any:
    return troth.load_model(choice_network(), tokenizer=fakes.tokenizer_for("bert"), choices=list(CHOICES))
