"""Converts texts to encodings: applies the tokenizer's template, assigns tokens to units by character overlap, and
truncates the first text.

The units of every kind of model come from the text, and tokens are assigned to them. Most texts are plain (ASCII only,
no pair, units are words) and are encoded together by a few array operations (`plain_encodings`); the others are encoded
one by one (`Units`).
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core import arguments
from troth.core.errors import TrothError
from troth.core.types import Encoding, Example
from troth.core.units import OWN, Span, UnitKind, ascii_words, join, own_spans, spans_of, words_until
from troth.core.user_code import shown
from troth.models._changes import borrowed
from troth.models.base import Segments, check_choices
from troth.models.families import first_position

_NO_LIMIT = 10**6


def encode(
    tokenizer: Any, examples: Iterable[Example], units: UnitKind, segments: Segments, max_length: int
) -> list[Encoding]:
    """Encodes every example as the tokenizer's model reads it."""
    check_choices(units, segments)
    require_fast(tokenizer)
    examples = list(examples)
    encodings: dict[int, Encoding] = {}
    # Singles and pairs are tokenized separately, because token types depend on it.
    for is_pair in (False, True):
        chosen = [index for index, example in enumerate(examples) if (example.text_pair is not None) == is_pair]
        if not chosen:
            continue
        pairs = [examples[index].text_pair for index in chosen] if is_pair else None
        texts = [examples[index] for index in chosen]
        given = f"{len(texts)} texts, the first {shown(texts[0].text)}"
        with borrowed(tokenizer, given):
            batch = tokenizer([each.text for each in texts], pairs, verbose=False)
            arrays = _arrays(tokenizer, batch, len(texts))
        for index, encoding in zip(chosen, _encodings(texts, arrays, units, segments, max_length), strict=True):
            encodings[index] = encoding
    return [encodings[index] for index in range(len(examples))]


class _Arrays(NamedTuple):
    """The output of a tokenizer: the tokens of all texts, concatenated."""

    counts: NDArray[np.int64]  # [texts] number of tokens
    ids: NDArray[np.int64]
    types: NDArray[np.int64] | None
    sequence: NDArray[np.float64]  # 0 for the first text, 1 for the second, NaN for a special token
    offsets: NDArray[np.int64]  # [tokens, 2] character offsets


def _arrays(tokenizer: Any, batch: Any, texts: int) -> _Arrays:
    try:
        rows, tokens = batch["input_ids"], list(batch.encodings)
        counts = np.array([len(ids) for ids in rows], np.int64)
        offsets = _flat(chain.from_iterable(each.offsets for each in tokens)).reshape(-1, 2)
        sequence = np.array(list(chain.from_iterable(each.sequence_ids for each in tokens)), np.float64)
        types = _flat(batch["token_type_ids"]) if "token_type_ids" in batch else None
        arrays = _Arrays(counts, _flat(rows), types, sequence, offsets)
        sizes = {counts.sum(), *(len(each) for each in arrays[1:] if each is not None)}
        if len(counts) == len(tokens) == texts and len(sizes) == 1 and (arrays.ids >= 0).all():
            return arrays
    except (TypeError, AttributeError, LookupError, ValueError, OverflowError):
        pass
    raise TrothError(
        f"{type(tokenizer).__name__} returned {shown(batch)} for {texts} texts; it must return input_ids and encodings "
        "with an id, offsets and a sequence for each token, as the fast tokenizers of transformers do"
    )


def require_fast(tokenizer: Any) -> None:
    """Refuses a tokenizer that does not return character offsets."""
    if not getattr(tokenizer, "is_fast", False):
        raise TrothError(f"{type(tokenizer).__name__} gives no character offsets; use the fast tokenizer of this model")


def longest(model: Any, tokenizer: Any, max_length: int | None, name: str) -> int:
    """The number of tokens that are read: the user's, else the tokenizer's, and at most the model's number of
    positions.
    """
    positions = int(getattr(model.config, "max_position_embeddings", None) or 0)
    positions = positions - (first_position(model) or 0) if positions > 0 else _NO_LIMIT
    if max_length is None:
        own = getattr(tokenizer, "model_max_length", _NO_LIMIT)
        if not isinstance(own, int | float) or not own >= 1:
            raise TrothError(f"{name}: model_max_length of its tokenizer is {shown(own)}; set it to a number of tokens")
        return int(min(positions, own, _NO_LIMIT))
    arguments.of_kind("max_length", max_length, int, "a whole number")
    if not 1 <= max_length <= positions:
        most = "" if positions == _NO_LIMIT else f": {name} has {positions} positions"
        raise TrothError(f"max_length must be a number from 1 to {positions}, not {max_length}{most}")
    return max_length


def _encodings(
    examples: Sequence[Example], arrays: _Arrays, units: UnitKind, segments: Segments, max_length: int
) -> Iterator[Encoding]:
    """The examples of one call of the tokenizer; all arrays here hold their tokens concatenated."""
    counts, sequence = arrays.counts, arrays.sequence
    stays = _stays(examples, sequence == 0, counts, max_length)
    ids = arrays.ids[stays]
    types = None if arrays.types is None else arrays.types[stays]
    segment_of = np.where(np.isnan(sequence), -1, sequence)[stays]
    of_text = np.repeat(np.arange(len(counts)), counts)[stays]
    read = np.bincount(of_text, minlength=len(counts))
    offsets = arrays.offsets[stays]
    is_word = units == "word"
    plain = np.array([is_word and each.text_pair is None and each.text.isascii() for each in examples], np.bool_)
    here = plain[of_text]
    together = iter(
        plain_encodings(
            [example for example, alike in zip(examples, plain.tolist(), strict=True) if alike],
            read[plain], ids[here], None if types is None else types[here], segment_of[here] == 0,
            offsets[here, 0], offsets[here, 1], (counts > read)[plain],
        )
    )  # fmt: skip
    starts = np.cumsum(read) - read
    for number, example in enumerate(examples):
        if plain[number]:
            yield next(together)
            continue
        part = slice(starts[number], starts[number] + read[number])
        assembled = Units(units, int(read[number]))
        cut = int(counts[number] - read[number])
        for segment, text in enumerate([example.text, example.text_pair]):
            if text is None or (segment == 1 and segments == "first"):
                continue
            tokens = np.flatnonzero(segment_of[part] == segment)
            pieces = offsets[part][tokens]
            lost = cut if segment == 0 else 0
            end = int(pieces[:, 1].max(initial=0)) if lost else None
            assembled.add(segment, text, tokens, pieces, end=end, lost_tokens=lost)
        yield assembled.encoding(
            example,
            ids=torch.from_numpy(ids[part]),
            token_types=None if types is None else torch.from_numpy(types[part]),
        )


def _stays(
    examples: Sequence[Example], is_first: NDArray[np.bool_], counts: NDArray[np.int64], max_length: int
) -> NDArray[np.bool_]:
    """The tokens that are kept: all, or without the end of the first text."""
    excess = counts - max_length
    if (excess <= 0).all():
        return np.ones(len(is_first), dtype=np.bool_)
    of_text = np.repeat(np.arange(len(counts)), counts)
    firsts = np.bincount(of_text[is_first], minlength=len(counts))
    for number in np.flatnonzero(excess >= np.maximum(firsts, 1)).tolist():
        example, fixed = examples[number], counts[number] - firsts[number]
        others = "the special tokens" if example.text_pair is None else "the second text and the special tokens"
        remedy = "give a larger max_length" if example.text_pair is None else "shorten the second text"
        raise TrothError(
            f"example {example.id}: {others} take {fixed} of {max_length} tokens, so no room is left for the text; "
            f"{remedy}"
        )
    before = np.cumsum(firsts) - firsts  # number of first-text tokens of the preceding examples
    rank = np.cumsum(is_first) - 1 - before[of_text]
    stays: NDArray[np.bool_] = ~is_first | (rank < (firsts - np.maximum(excess, 0))[of_text])
    return stays


def _flat(lists: Iterable[Iterable[Any]]) -> NDArray[np.int64]:
    return np.fromiter(chain.from_iterable(lists), np.int64)


class Units:
    """Collects the units of one example, one text at a time, and the unit of each token."""

    def __init__(self, kind: UnitKind, tokens: int = 0, outside: int = -1) -> None:
        self.own = None if isinstance(kind, str) else kind  # spans of the first text
        self.kind = kind if isinstance(kind, str) else OWN
        self.of_token = np.full(tokens, outside)  # tokens that belong to no text keep `outside`
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
        """Adds a text with the indices and characters of its tokens; what lies beyond `end` was not read.

        With `whole`, the text is one unit. Tokens that were not read are units only if units are tokens.
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
        """The example with these units; without ids, each unit is its own token, and the token's id is its index."""
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
    """An encoding that stores the spans of its words and creates the words on demand."""

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
    """The encodings of examples from their concatenated tokens: `counts` per example, and the character span of each
    token.
    """
    word_starts, word_ends, begins = ascii_words([example.text for example in examples])
    of_token = np.repeat(np.arange(len(examples)), counts)
    of_word = np.searchsorted(begins, word_starts, side="right") - 1
    truncated = np.zeros(len(examples), np.int64)
    if is_cut.any():
        # A text was read up to its last token.
        last = np.zeros(len(examples), np.int64)
        np.maximum.at(last, of_token[in_text], ends[in_text])
        read = ~is_cut[of_word] | (word_starts - begins[of_word] < last[of_word])
        truncated = np.bincount(of_word[~read], minlength=len(examples))
        word_starts, word_ends, of_word = word_starts[read], word_ends[read], of_word[read]
    sizes = np.bincount(of_word, minlength=len(examples))
    first = np.cumsum(sizes) - sizes
    # The first word that ends after the token's start overlaps the token or follows it; behind the last word, the last
    # word.
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
