"""Models of several labels and of values, for the tests: planted, random, and by hand."""

from __future__ import annotations

import torch

from fakes import hf_model, tokenizer_for
from troth.models.black_box import BlackBox
from troth.models.encoder import Encoder

LABELS = ("rude", "warm")
WORDS = {"rude": "awful", "warm": "joy"}


def planted_labels() -> Encoder:
    """A multi-label BERT of one layer: each head looks for the word of its own label, and only that reaches the label.

    The first number of a vector says "awful", the second "joy"; both words may stand in one text, and both labels hold.
    """
    tokenizer = tokenizer_for("bert")
    model = hf_model("bert", classes=2, num_hidden_layers=1, problem_type="multi_label_classification")
    bert, layer = model.bert, model.bert.encoder.layer[0].attention
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "LayerNorm" not in name:
                parameter.zero_()
        words, types = bert.embeddings.word_embeddings.weight, bert.embeddings.token_type_embeddings.weight
        for vectors in (words.normal_(), types.normal_()):
            vectors[:, :2] = 0
        for label, (head, word) in enumerate(zip((0, 8), WORDS.values(), strict=True)):
            words[tokenizer.convert_tokens_to_ids(word), label] = 4
            layer.self.query.bias[head] = 4
            layer.self.key.weight[head, label] = layer.self.value.weight[head, label] = 1
            layer.output.dense.weight[label, head] = 1
            bert.pooler.dense.weight[label, label] = 0.5
            model.classifier.weight[label, label], model.classifier.bias[label] = 8, -3
    return Encoder(model, tokenizer, name="planted labels", labels=LABELS)


def random_labels(labels: int = 5, family: str = "bert", **options) -> Encoder:
    """A random multi-label model."""
    model = hf_model(family, classes=labels, problem_type="multi_label_classification")
    return Encoder(model, tokenizer_for(family), name="tiny labels", **options)


def regression(classes: int = 1) -> Encoder:
    """A random model that gives a value."""
    return Encoder(
        hf_model("bert", classes=classes, problem_type="regression"), tokenizer_for("bert"), name="tiny value"
    )


class LabelLookup(BlackBox):
    """Independent probabilities by text, written in the test; "[M]" is what erased words become."""

    def __init__(self, table: dict[str, list[float]], labels=LABELS, **options) -> None:
        super().__init__(
            lambda texts: [table[text] for text in texts],
            labels=labels, mask_text="[M]", name="lookup", multi_label=True, **options,
        )  # fmt: skip
