"""A small BERT with random weights and a word vocabulary made from the training texts: nothing to download."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from troth.core import draws
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.models.encoder import Encoder
from troth.training.bases import Base, class_names, texts_of
from troth.training.vocabulary import word_tokenizer


@dataclass(frozen=True)
class Scratch(Base):
    layers: int = 2
    hidden: int = 128
    heads: int = 4
    dropout: float = 0.1
    positions: int = 512
    lowercase: bool = True
    minimum_count: int = 1

    def __post_init__(self) -> None:
        if min(self.layers, self.hidden, self.heads, self.positions) < 1 or self.hidden % self.heads:
            raise TrothError(
                f"scratch: hidden ({self.hidden}) must be a multiple of heads ({self.heads}), all 1 or more"
            )

    def build(self, examples: Sequence[Example], labels: tuple[str, ...], seed: int, max_length: int | None) -> Encoder:
        from transformers import BertConfig, BertForSequenceClassification

        texts = texts_of(examples)
        tokenizer = word_tokenizer(
            texts, lowercase=self.lowercase, minimum_count=self.minimum_count, max_length=self.positions
        )
        config = BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=4 * self.hidden,
            max_position_embeddings=self.positions,
            hidden_dropout_prob=self.dropout,
            attention_probs_dropout_prob=self.dropout,
            pad_token_id=tokenizer.pad_token_id,
            **class_names(labels),
        )
        with draws.seeded(draws.key(seed, "new weights")):
            model = BertForSequenceClassification(config)  # type: ignore[no-untyped-call]
        return Encoder(model, tokenizer, name="scratch", max_length=max_length)

    def settings(self, data: str, *, pair: bool) -> Mapping[str, Any]:
        return {"epochs": 20, "batch_size": 32, "learning_rate": 5e-4, "betas": (0.9, 0.999), "clip": 1.0}
