"""Small random models with other heads than a text classifier's."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from transformers import AutoModelForTokenClassification, BertConfig

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
