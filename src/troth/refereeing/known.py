"""Classifiers with known answers: each class's value is a polynomial in how often each word occurs in the text.

The embeddings of the words are orthogonal, and words that are not in the polynomial have no effect. So a word that is
deleted, masked, replaced by padding or set to zero is simply absent: every way to erase it has the same result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from troth.refereeing.tokenizers import LONGEST, ids_of

Of = Literal["logit", "probability", "log_probability"]
OF: tuple[Of, ...] = ("logit", "probability", "log_probability")
CLASSES = 3
# What is explained is base + scale × the polynomial, so that probabilities stay between 0 and 1.
SCALES: Mapping[Of, float] = {"logit": 1.0, "probability": 0.02, "log_probability": 0.2}
_BASES: Mapping[Of, float] = {"logit": 0.0, "probability": 0.2, "log_probability": -3.0}

Values = tuple[float, float, float]  # one per class


@dataclass(frozen=True)
class Game:
    """The polynomial: the contribution of each word, and of combinations ("2:word" is a word of the second text)."""

    words: Mapping[str, Values]
    together: Mapping[tuple[str, ...], Values]


# The third class is the sum of the first two, and "good" and "great" differ.
LINEAR = Game(
    {
        "good": (2, -1, 1), "bad": (-2, 1.5, -0.5), "great": (1, 0.5, 1.5), "dull": (-1, 0.75, -0.25),
        "very": (0.5, -0.25, 0.25), "lov": (0.5, 1, 1.5), "##lov": (0.5, 1, 1.5), "##able": (-0.25, 0.5, 0.25),
        "un": (-0.5, 1.25, 0.75), "cafe": (1.5, -0.75, 0.75),
    },
    {},
)  # fmt: skip
PRODUCT = Game(
    LINEAR.words,
    {
        ("very", "good"): (1, -0.5, 0.5), ("not", "good"): (-3, 2, -1), ("not", "very", "good"): (1.5, -1, 0.5),
        ("really", "bad"): (-1, 0.5, -0.5), ("really", "great"): (-1, 0.5, -0.5),
    },
)  # fmt: skip
SYMMETRIC = Game(
    {"good": (2, -1, 1), "great": (2, -1, 1)}, {("very", "good"): (1, -0.5, 0.5), ("very", "great"): (1, -0.5, 0.5)}
)
PAIR = Game({"good": (2, -1, 1)}, {("good", "2:bad"): (1.5, 3, 4.5)})


def with_token(game: Game, token: str, values: Values) -> Game:
    """The game in which a special token has an effect, too: alone, and together with the word good."""
    return Game({**game.words, token: values}, {**game.together, ("good", token): values})


class Row(NamedTuple):
    """A row that the model has read: the attended ids (-1 for a mixture of embeddings) and their token types."""

    ids: tuple[int, ...]
    types: tuple[int, ...] | None


class Log(list[Row]):
    """Rows in the order in which they were read; copies of the model share the log."""

    def __deepcopy__(self, memo: Any) -> Log:
        return self


class KnownConfig(PretrainedConfig):  # type: ignore[no-untyped-call]
    model_type = "troth_known"


class KnownForSequenceClassification(PreTrainedModel):  # type: ignore[no-untyped-call]
    """A transformers classifier whose logits, probabilities or log-probabilities (`of`) are the values of a game."""

    config_class = KnownConfig
    base_model_prefix = "known"

    def __init__(self, game: Game, tokenizer: Any, of: Of = "logit", *, multi_label: bool = False) -> None:
        columns = CLASSES if multi_label else CLASSES + 1  # the last one takes the rest of the probability
        size = len(tokenizer)
        facts: dict[str, Any] = {
            "num_labels": columns, "vocab_size": size, "hidden_size": size, "num_hidden_layers": 1,
            "num_attention_heads": 1, "max_position_embeddings": LONGEST, "pad_token_id": tokenizer.pad_token_id,
            "problem_type": "multi_label_classification" if multi_label else "single_label_classification",
        }  # fmt: skip
        super().__init__(KnownConfig(**facts))
        self.of, self.multi_label, self.read = of, multi_label, Log()
        self.known: Any = nn.Module()
        self.known.embeddings = nn.Module()
        words = nn.Embedding(size, size)
        self.known.embeddings.word_embeddings = words
        self.classifier = nn.Linear(2 * size, CLASSES, bias=False)  # the words of the text, then of the second one
        with torch.no_grad():
            words.weight.copy_(torch.eye(size))
            self.classifier.weight.zero_()
            for word, values in game.words.items():
                for place in ids_of(tokenizer, word):
                    self.classifier.weight[:, [place, size + place]] = torch.tensor(values, dtype=torch.float32)[
                        :, None
                    ]
        self.separator = tokenizer.sep_token_id
        self.products = [(_features(names, tokenizer, size), values) for names, values in game.together.items()]
        self.eval()  # type: ignore[no-untyped-call]

    def get_input_embeddings(self) -> nn.Module:
        words: nn.Module = self.known.embeddings.word_embeddings
        return words

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.known.embeddings.word_embeddings = value

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> Any:
        vectors = self.get_input_embeddings()(input_ids) if inputs_embeds is None else inputs_embeds
        if vectors.shape[1] > LONGEST:
            raise IndexError(f"index out of range in self: {vectors.shape[1]} positions of {LONGEST}")
        mask = torch.ones_like(vectors[..., 0]) if attention_mask is None else attention_mask.to(vectors.dtype)
        self._note(vectors, mask, token_type_ids)
        second = self._second(vectors, token_type_ids)[..., None].to(vectors.dtype)
        attended = vectors * mask[..., None]
        counts = torch.cat([attended * (1 - second), attended * second], -1).sum(1)  # [rows, 2 × vocabulary]
        logits = self.linked(self.polynomial(counts))
        return (logits,) if return_dict is False else SequenceClassifierOutput(logits=logits)  # type: ignore[arg-type]

    def polynomial(self, counts: Tensor) -> Tensor:
        """The values of the polynomial: [rows, 2 × vocabulary] -> [rows, classes]"""
        values = self.classifier(counts)
        for features, factors in self.products:
            product = torch.ones_like(counts[:, 0])
            for places in features:
                product = product * counts[:, places].sum(-1)
            values = values + product[:, None] * counts.new_tensor(factors)
        return values  # type: ignore[no-any-return]

    def linked(self, values: Tensor) -> Tensor:
        """Logits whose logit, probability or log-probability is base + scale × value."""
        values = _BASES[self.of] + SCALES[self.of] * values
        if self.of == "logit":
            return values if self.multi_label else torch.cat([values, torch.zeros_like(values[:, :1])], -1)
        logs = values if self.of == "log_probability" else values.clamp(min=1e-12).log()
        if self.multi_label:
            return logs - (1 - logs.exp()).clamp(min=1e-12).log()
        return torch.cat([logs, (1 - logs.exp().sum(-1, keepdim=True)).clamp(min=1e-12).log()], -1)

    def _second(self, vectors: Tensor, types: Tensor | None) -> Tensor:
        """[rows, length] 1 if a token belongs to the second text, else 0."""
        if types is not None:
            return types.clamp(max=1)
        if self.separator is None:
            return torch.zeros_like(vectors[..., 0])
        separators = (vectors[..., self.separator].detach() > 0.5).long()
        return (separators.cumsum(1) - separators).clamp(max=1)

    @torch.no_grad()
    def _note(self, vectors: Tensor, mask: Tensor, types: Tensor | None) -> None:
        # A scaled embedding is still that word; a mixture of two is not a word.
        alone = (vectors != 0).sum(-1) == 1
        ids_of_rows = torch.where(alone, vectors.abs().argmax(-1), -1)
        attended = (mask.expand(vectors.shape[:2]) > 0).cpu()
        kinds = None if types is None else types.expand(vectors.shape[:2])
        for place, seen in enumerate(attended):
            kind = None if kinds is None else tuple(kinds[place][seen].tolist())
            self.read.append(Row(tuple(ids_of_rows[place][seen].tolist()), kind))


def _features(names: Sequence[str], tokenizer: Any, size: int) -> list[list[int]]:
    """The columns of the counts that each factor sums: a word of the first text, or with "2:" of the second."""
    features = []
    for name in names:
        word = name.removeprefix("2:")
        places = ids_of(tokenizer, word)
        features.append([size + place for place in places] if word != name else places)
    return features


def counts(ids: Sequence[int], types: Sequence[int], size: int) -> Tensor:
    """[1, 2 × vocabulary] The word counts of one text."""
    result = torch.zeros(1, 2 * size)
    for place, kind in zip(ids, types, strict=True):
        result[0, place + size * min(kind, 1)] += 1
    return result
