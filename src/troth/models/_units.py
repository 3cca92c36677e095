"""The units of an example, for every kind of model: they come from the text, and tokens join them.

Most texts are plain: ASCII alone, without a pair, and their units are words. Those become encodings in a few array
operations for all of them together (`plain_encodings`), the others one by one (`Units`).
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core.types import Encoding, Example
from troth.core.units import OWN, Span, UnitKind, ascii_words, join, own_spans, spans_of, words_until


class Units:
    """Collects the units of one example, text by text, and the unit of each of its tokens."""

    def __init__(self, kind: UnitKind, tokens: int = 0, outside: int = -1) -> None:
        self.own = None if isinstance(kind, str) else kind  # spans of the first text
        self.kind = kind if isinstance(kind, str) else OWN
        self.of_token = np.full(tokens, outside)  # what no text claims stays `outside`
        self.spans: list[Span] = []
        self.segments: list[int] = []
        self.texts: list[str] = []
        self.truncated = 0

    def add(
        self,
        segment: int,
        text: str,
        tokens: NDArray[np.int64] | None = None,
        pieces: Sequence[Span] | NDArray[np.int64] = (),
        *,
        end: int | None = None,
        lost_tokens: int = 0,
        whole: bool = False,
    ) -> None:
        """One text, the numbers of its tokens and their characters in it; beyond `end` it was not read.

        With `whole` it is one unit; tokens that were not read are units only where units are tokens.
        """
        if whole:
            spans = [(0, len(text))]
        elif self.kind == "token":
            spans, self.truncated = [(int(start), int(stop)) for start, stop in pieces], self.truncated + lost_tokens
        elif self.kind == "word" and end is not None:
            spans, beyond = words_until(text, end)
            self.truncated += beyond
        else:
            every = self._spans(segment, text)
            spans = every if end is None else [span for span in every if span[0] < end]
            self.truncated += len(every) - len(spans)
        if tokens is not None:
            is_token = self.kind == "token" and not whole
            numbers = np.arange(len(spans)) if is_token else join(pieces, spans, touching=self.own is not None)
            self.of_token[tokens] = np.where(numbers < 0, -1, numbers + len(self.spans))
        self.spans += spans
        self.segments += [segment] * len(spans)
        self.texts += [text[start:stop] for start, stop in spans]

    def _spans(self, segment: int, text: str) -> list[Span]:
        if self.own is None:
            return spans_of(self.kind)(text)
        return own_spans(self.own, text) if segment == 0 else []

    def encoding(self, example: Example, ids: Tensor | None = None, **more: Any) -> Encoding:
        """The example with these units; without ids each unit is its own token, whose id is its number."""
        return Encoding(
            example,
            ids=torch.arange(len(self.spans)) if ids is None else ids,
            units=torch.arange(len(self.spans)) if ids is None else torch.from_numpy(self.of_token),
            unit_texts=tuple(self.texts),
            unit_spans=tuple(self.spans),
            unit_segments=tuple(self.segments),
            truncated=self.truncated,
            tokenized=ids is not None,
            unit_kind=self.kind,
            **more,
        )


class PlainEncoding(Encoding):
    """An encoding whose words are numbers until somebody asks for them."""

    _spans: NDArray[np.int64]  # [units, 2]

    @property
    def n_units(self) -> int:
        return len(self._spans) if "_spans" in vars(self) else len(self.unit_texts)

    @cached_property
    def unit_spans(self) -> tuple[Span, ...]:
        return tuple((start, end) for start, end in self._spans.tolist())

    @cached_property
    def unit_texts(self) -> tuple[str, ...]:
        text = self.example.text
        return tuple(text[start:end] for start, end in self.unit_spans)

    @cached_property
    def unit_segments(self) -> tuple[int, ...]:
        return (0,) * len(self._spans)

    def __repr__(self) -> str:
        return super().__repr__().replace(type(self).__name__, Encoding.__name__, 1)


def plain_encodings(
    examples: Sequence[Example],
    counts: NDArray[np.int64],
    ids: NDArray[np.int64],
    types: NDArray[np.int64] | None,
    in_text: NDArray[np.bool_],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    is_cut: NDArray[np.bool_],
) -> list[Encoding]:
    """The examples, given their tokens one after another: `counts` of each, and from which character to which."""
    word_starts, word_ends, begins = ascii_words([example.text for example in examples])
    of_token = np.repeat(np.arange(len(examples)), counts)
    of_word = np.searchsorted(begins, word_starts, side="right") - 1
    truncated = np.zeros(len(examples), np.int64)
    if is_cut.any():
        # Beyond the last token that was read, a text was not read.
        last = np.zeros(len(examples), np.int64)
        np.maximum.at(last, of_token[in_text], ends[in_text])
        read = ~is_cut[of_word] | (word_starts - begins[of_word] < last[of_word])
        truncated = np.bincount(of_word[~read], minlength=len(examples))
        word_starts, word_ends, of_word = word_starts[read], word_ends[read], of_word[read]
    sizes = np.bincount(of_word, minlength=len(examples))
    first = np.cumsum(sizes) - sizes
    # The first word that ends after the token's start either overlaps it or is the next one; behind the last, the last.
    number = np.searchsorted(word_ends, starts + begins[of_token], side="right") - first[of_token]
    number = np.where(in_text, np.clip(number, 0, sizes[of_token] - 1), -1)
    has_token = np.zeros(len(word_starts), np.bool_)
    has_token[(number + first[of_token])[number >= 0]] = True
    lacking = np.bincount(of_word[~has_token], minlength=len(examples)).tolist()
    spans = np.column_stack([word_starts - begins[of_word], word_ends - begins[of_word]])
    lengths, bounds = counts.tolist(), np.cumsum(sizes).tolist()
    parts = [torch.split_with_sizes(torch.from_numpy(values), lengths) for values in (ids, number)]
    of_type = [None] * len(examples) if types is None else torch.split_with_sizes(torch.from_numpy(types), lengths)
    encodings: list[Encoding] = []
    columns = zip(examples, *parts, of_type, [0, *bounds], bounds, truncated.tolist(), lacking, strict=False)
    for example, own, units, kinds, start, end, cut, missing in columns:
        encoding = PlainEncoding.__new__(PlainEncoding)
        vars(encoding).update(
            example=example, ids=own, units=units, token_types=kinds, truncated=cut, _spans=spans[start:end],
            has_tokenless=missing > 0,
        )  # fmt: skip
        encodings.append(encoding)
    return encodings
