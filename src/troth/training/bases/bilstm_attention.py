"""A bidirectional LSTM with attention over a word vocabulary made from the training texts, as in the ROAR paper.

`vectors` is a file of pretrained word vectors (GloVe or fastText text, or JSON), which are trained further. Without it,
words begin as standard normal vectors of size `embedding`. The paper does not say how words without a vector begin, and
[MASK], which has none: here as widely spread as the others; in the released code (`variant="released"`) at 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from troth.core import draws
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.models.encoder import Encoder
from troth.training import vocabulary
from troth.training.bases import Base, class_names, texts_of

# ROAR, tables 4 and 5: batch size and epochs.
_BATCHES_AND_EPOCHS = {"snli": (128, 25)} | dict.fromkeys(("babi", "babi1", "babi2", "babi3"), (50, 100))


@dataclass(frozen=True)
class BilstmAttention(Base):
    embedding: int = 300
    hidden: int = 128
    vectors: str = ""
    # released: each text of a pair has an embedding of its own; words without a vector begin at 0
    variant: Literal["paper", "released"] = "paper"
    lowercase: bool = True
    minimum_count: int = 1
    positions: int = 4096

    def __post_init__(self) -> None:
        if min(self.embedding, self.hidden, self.positions) < 1:
            raise TrothError("bilstm_attention: embedding, hidden and positions must be 1 or more")

    def build(self, examples: Sequence[Example], labels: tuple[str, ...], seed: int, max_length: int | None) -> Encoder:
        from troth.models.bilstm_attention import BilstmAttentionConfig, BilstmAttentionForSequenceClassification

        tokenizer = vocabulary.word_tokenizer(
            texts_of(examples), lowercase=self.lowercase, minimum_count=self.minimum_count, max_length=self.positions
        )
        known = vocabulary.read_vectors(self.vectors, tokenizer.get_vocab()) if self.vectors else {}
        if self.vectors and not known:
            raise TrothError(f"{self.vectors}: no word of the training data has a vector in this file")
        config = BilstmAttentionConfig(
            vocab_size=len(tokenizer),
            embedding_size=len(next(iter(known.values()))) if known else self.embedding,
            hidden_size=self.hidden,
            pair=is_pair(examples),
            shared_embedding=self.variant == "paper",
            pad_token_id=tokenizer.pad_token_id,
            first_attended_id=tokenizer.mask_token_id,  # the first id after [PAD], [CLS] and [EOS]
            **class_names(labels),
        )
        with draws.seeded(draws.key(seed, "new weights")):
            model = BilstmAttentionForSequenceClassification(config)
            body = model.bilstm
            if known:
                others: Literal["drawn", "zero"] = "zero" if self.variant == "released" else "drawn"
                vocabulary.put_vectors(body.embeddings.word_embeddings, tokenizer, known, others=others)
            if config.pair and not config.shared_embedding:
                body.second_embeddings.load_state_dict(body.embeddings.state_dict())
        return Encoder(model, tokenizer, name="bilstm_attention", max_length=max_length)

    def settings(self, data: str, *, pair: bool) -> Mapping[str, Any]:
        return roar_bilstm(data, pair=pair)


def roar_bilstm(data: str, *, pair: bool) -> dict[str, Any]:
    """The settings of the ROAR paper: Adam with amsgrad; the attention of the single form does not decay."""
    batch_size, epochs = _BATCHES_AND_EPOCHS.get(data, (32, 8))
    return {
        "optimizer": "adam",
        "amsgrad": True,
        "learning_rate": 1e-3,
        "betas": (0.9, 0.999),
        "weight_decay": 1e-5,
        "no_decay": () if pair else ("attention",),
        "schedule": "constant",
        "warmup": 0.0,
        "batch_size": batch_size,
        "epochs": epochs,
        "metric": "accuracy" if pair else "auroc",
        "precision": "no",
    }


def is_pair(examples: Sequence[Example]) -> bool:
    """Whether the examples are pairs; one model reads either single texts or pairs, not both."""
    pairs = sum(example.text_pair is not None for example in examples)
    if 0 < pairs < len(examples):
        raise TrothError(
            f"{pairs} of {len(examples)} examples have a second text; bilstm_attention reads texts or pairs, not both"
        )
    return pairs > 0
