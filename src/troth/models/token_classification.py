"""A token classifier (named entities, parts of speech): which words make it give one word of the text its label.

What is read is the logits at the word's first piece, as such models are trained. A target names the word and its label:
`{"word": "London", "label": "LOC"}`. Without a target, the word is explained that the model most surely holds for an
entity (any label but O), and the label that it gives this word. The word itself is a unit like the others; where it is
deleted, a mask token stays in its place, since its label is read there.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import Encoding, Example, Rows
from troth.core.units import Span, UnitKind, spans_of
from troth.models import _trial
from troth.models._encoding import encode
from troth.models._loading import TOKENS, architecture
from troth.models.base import Segments
from troth.models.encoder import Encoder

OUTSIDE = "O"  # the label of words outside entities
_PREFIX = r"[BIESLU][-_]"  # prefixes of tagging schemes that mark the position within an entity: B-LOC, I-LOC
_TOGETHER = 32  # texts that are read at a time to find their entities


class TokenClassification(Encoder):
    """Any transformers model with a token classification head; its classes are the labels of one word."""

    kind = "a token classifier"
    loaded_with = "a folder, hub name or model of AutoModelForTokenClassification"
    options = ()
    network = TOKENS
    labels_words = True
    takes_windows = False

    @classmethod
    def takes(cls, source: Any, **options: Any) -> bool:
        return architecture(source).endswith("ForTokenClassification")

    @property
    def spec(self) -> dict[str, Any]:
        return {}

    # The word asked about

    def encode(
        self, examples: Iterable[Example], units: UnitKind = "word", segments: Segments = "first"
    ) -> list[Encoding]:
        """Encodes each text with the word that is most probably an entity as the one asked about."""
        encodings = super().encode(examples, units, segments)
        if _trial.is_tried(self):  # during the trial on first use
            return encodings
        pieces = self._pieces(encodings)
        found: list[Encoding] = []
        with self.at_rest(), torch.no_grad():
            count = _TOGETHER if self.pads else 1
            for start in range(0, len(encodings), count):
                some, words = encodings[start : start + count], pieces[start : start + count]
                logits = self._every_token(_trial.rows_of(self, some))
                found += [self._surest(*each) for each in zip(some, words, logits.log_softmax(-1), strict=True)]
        return found

    def aimed(self, encoding: Encoding, target: Any) -> tuple[Encoding, Any]:
        """The encoding asked about the word that a target names, and that label of the word."""
        if not isinstance(target, Mapping):
            return encoding, target
        span = _span_of(encoding.example, target["word"], target.get("start"))
        (words,) = self._pieces([encoding], [span])
        if not words:
            raise TrothError(
                f"example {encoding.example.id}: {target['word']!r} comes after the {self.max_length} tokens that "
                "were read; give a larger max_length"
            )
        asked = replace(encoding, asked=words[0])
        matching = _matching(self.labels, target.get("label"))
        if len(matching) == 1:
            return asked, matching[0]
        with self.at_rest(), torch.no_grad():
            says = self._every_token(_trial.rows_of(self, [asked]))[0, words[0][0]]
        return asked, max(matching, key=lambda label: float(says[label]))

    def _pieces(
        self, encodings: Sequence[Encoding], spans: Sequence[Span] | None = None
    ) -> list[list[tuple[int, Span]]]:
        """For each text, the words (or these spans) that were read, with the position of their first token."""
        by_token = encode(self.tokenizer, [each.example for each in encodings], "token", "first", self.max_length)
        return [
            _first_pieces(each, spans_of("word")(each.example.text) if spans is None else spans) for each in by_token
        ]

    def _surest(self, encoding: Encoding, words: list[tuple[int, Span]], says: Tensor) -> Encoding:
        """The encoding asked about the word with the most probable label other than O. [length, labels]"""
        entities = [place for place, label in enumerate(self.labels) if label != OUTSIDE]
        if not words or not entities:
            return encoding
        best = says[[place for place, _ in words]][:, entities].amax(1).argmax()
        return replace(encoding, asked=words[int(best)])

    # The logits at that word

    def _call(self, rows: Rows, *, attentions: bool, hidden: bool) -> Any:
        output = super()._call(rows, attentions=attentions, hidden=hidden)
        if getattr(output, "logits", None) is not None and output.logits.dim() == 3:
            place = self.reading_place(rows).to(output.logits.device)
            output.logits = output.logits[torch.arange(len(place), device=place.device), place]
        return output

    def _every_token(self, rows: Rows) -> Tensor:
        """[rows, length, labels]"""
        logits: Tensor = super()._call(rows, attentions=False, hidden=False).logits
        return logits

    def reading_place(self, rows: Rows) -> Tensor:
        """The position of the word; the first position in a text without words."""
        return torch.zeros_like(rows.lengths) if rows.asked is None else rows.asked.long().argmax(1)


def _first_pieces(by_token: Encoding, spans: Sequence[Span]) -> list[tuple[int, Span]]:
    """The position of the first token of each span, given an encoding whose units are tokens."""
    places = [(place, by_token.unit_spans[unit]) for place, unit in enumerate(by_token.units.tolist()) if unit >= 0]
    found = []
    for start, end in spans:
        first = next((place for place, (begin, stop) in places if begin < end and stop > max(start, begin)), None)
        if first is not None:
            found.append((first, (start, end)))
    return found


def _span_of(example: Example, word: str, start: int | None) -> Span:
    """The characters of a word (or of several in a row): its first occurrence, or the one that begins at `start`."""
    words = spans_of("word")(example.text)
    begins, ends = {begin for begin, _ in words}, {end for _, end in words}
    every = [found.start() for found in re.finditer(f"(?={re.escape(word)})", example.text)]
    places = [place for place in every if place in begins and place + len(word) in ends]
    if not places:
        there = list(dict.fromkeys(example.text[begin:end] for begin, end in words))
        more = ", …" if len(there) > 20 else ""
        raise TrothError(
            f"example {example.id} has no word {word!r}; its words are {', '.join(there[:20]) or 'none'}{more}"
        )
    if start is not None and start not in places:
        raise TrothError(
            f"example {example.id} has no {word!r} at character {start}; it occurs at {', '.join(map(str, places))}"
        )
    return (places[0] if start is None else start), (places[0] if start is None else start) + len(word)


def _matching(labels: Sequence[str], label: str | None) -> list[int]:
    """The labels that a name stands for: itself or, if labels have prefixes, those of its scheme; all if none is
    named.

    If there are several, the most probable one at the word is explained.
    """
    if label is None:
        return list(range(len(labels)))
    if label in labels:
        return [labels.index(label)]
    found = [place for place, each in enumerate(labels) if re.fullmatch(_PREFIX + re.escape(label), each)]
    if not found:
        raise TrothError(f"no label is called {label!r}; there are: {', '.join(labels)}")
    return found
