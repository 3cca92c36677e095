"""Short ways to ask a metric about scores that a test writes down, and a model that is right by construction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from fakes import tokenizer_for
from troth.core.types import Attribution, Example
from troth.explainers import Explainer
from troth.models import Output, TextClassifier
from troth.models._encoding import encode
from troth.verbs.measure import measure


def attribution(model, text, scores, *, target=1, label=None, rationale=None, signed=True, units="word"):
    example = Example(id="one", text=text, label=label, rationale=rationale)
    return Attribution.from_scores(model, example, scores, target=target, signed=signed, units=units)


def score(model, text, scores, metric, *, explainer=None, seed=0, **options):
    """What a metric says of one explanation."""
    return measure(model, [attribution(model, text, scores, **options)], metric, explainer=explainer, seed=seed)[0]


@dataclass(frozen=True)
class Fixed(Explainer):
    """The same scores, whatever is left of the input."""

    signed: ClassVar[bool] = True
    scores: tuple[float, ...] = ()

    def ask(self, question):
        yield from ()
        return Attribution(question, np.array(self.scores), signed=True)


class Additive(TextClassifier):
    """Class 1's logit is the sum of what each word adds: its strength, written in the test; attention weighs it."""

    name = "additive"
    pads = True
    labels = ("no", "yes")
    fingerprint = "additive"

    def __init__(self, strengths: dict[str, float], bias: float = -2.0) -> None:
        self.tokenizer = tokenizer_for("bert")
        self.bias = bias
        self.embedding_matrix = torch.zeros(len(self.tokenizer), 8)
        for word, strength in strengths.items():
            self.embedding_matrix[self.tokenizer.convert_tokens_to_ids(word)] = strength / 8

    embedding_matrix = None

    @property
    def mask_id(self):
        return self.tokenizer.mask_token_id

    @property
    def pad_id(self):
        return self.tokenizer.pad_token_id

    filler_id = pad_id

    def encode(self, examples, units="word", segments="first"):
        return encode(self.tokenizer, examples, units, segments, 64)

    def forward(self, rows, *, attentions=False, hidden=False):
        vectors = rows.vectors(self) * rows.real[..., None]
        if rows.output_factor is not None:
            vectors = vectors * rows.output_factor
        if rows.attention is not None:
            vectors = vectors * rows.attention.exp()[..., None]
        yes = vectors.sum((1, 2)) + self.bias
        return Output(torch.stack([torch.zeros_like(yes), yes], dim=-1))


STRENGTHS = {"great": 4.0, "good": 2.0, "film": 0.5, "slow": -0.5, "dull": -1.0}
TEXT = "slow good film great dull"
TRUTH = [-0.5, 2.0, 0.5, 4.0, -1.0]


def tokens_run(model, work):
    """How many tokens go through the first layer."""
    layers = getattr(model.model.base_model, "layers", None) or model.model.base_model.h
    counted = []
    handle = layers[0].register_forward_pre_hook(
        lambda _, inputs, named: counted.append(len((*inputs, *named.values())[0].flatten(0, 1))),
        with_kwargs=True,
    )
    try:
        work()
    finally:
        handle.remove()
    return sum(counted)
