"""Texts to encodings: the tokenizer's own template, units by character overlap, the end of the first text cut off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from troth.core.errors import TrothError
from troth.core.types import Encoding, Example
from troth.core.units import Span, UnitKind, join, sentence_spans, word_spans
from troth.models import Segments, check_choices
from troth.models._sharing import borrowed


def encode(
    tokenizer: Any, examples: Iterable[Example], units: UnitKind, segments: Segments, max_length: int
) -> list[Encoding]:
    """Every example as the tokenizer's model reads it."""
    check_choices(units, segments)
    if not getattr(tokenizer, "is_fast", False):
        raise TrothError(f"{type(tokenizer).__name__} gives no character offsets; use the fast tokenizer of this model")
    examples = list(examples)
    encodings: list[Encoding | None] = [None] * len(examples)
    # Token types are what a plain call returns, so singles and pairs are tokenized apart.
    for is_pair in (False, True):
        chosen = [index for index, example in enumerate(examples) if (example.text_pair is not None) == is_pair]
        if chosen:
            batch = [examples[index] for index in chosen]
            for index, encoding in zip(chosen, _encode(tokenizer, batch, units, segments, max_length), strict=True):
                encodings[index] = encoding
    return [encoding for encoding in encodings if encoding is not None]


def _encode(
    tokenizer: Any, examples: Sequence[Example], units: UnitKind, segments: Segments, max_length: int
) -> Iterable[Encoding]:
    batch = _call(tokenizer, examples)
    for index, example in enumerate(examples):
        tokens = batch.encodings[index]
        stays = _within(example, tokens.sequence_ids, max_length)
        types = batch["token_type_ids"][index] if "token_type_ids" in batch else None
        yield _encoding(example, tokens, types, units, segments, stays)


def _call(tokenizer: Any, examples: Sequence[Example]) -> Any:
    texts = [example.text for example in examples]
    with borrowed(tokenizer):
        if examples[0].text_pair is None:
            return tokenizer(texts, verbose=False)
        return tokenizer(texts, [example.text_pair for example in examples], verbose=False)


def _within(example: Example, sequence: Sequence[int | None], max_length: int) -> NDArray[np.int64]:
    """Numbers of the tokens that stay: all, or the first text less its end."""
    excess = len(sequence) - max_length
    first = [place for place, number in enumerate(sequence) if number == 0]
    if excess <= 0:
        return np.arange(len(sequence))
    fixed = len(sequence) - len(first)
    if fixed >= max_length:
        others = "the special tokens" if example.text_pair is None else "the second text and the special tokens"
        remedy = "give a larger max_length" if example.text_pair is None else "shorten the second text"
        raise TrothError(
            f"example {example.id}: {others} take {fixed} of {max_length} tokens, "
            f"so no room is left for the text; {remedy}"
        )
    return np.delete(np.arange(len(sequence)), first[-excess:])


def _encoding(
    example: Example,
    tokens: Any,
    types: Sequence[int] | None,
    units: UnitKind,
    segments: Segments,
    stays: NDArray[np.int64],
) -> Encoding:
    cut, offsets = len(tokens.ids) - len(stays), [tokens.offsets[place] for place in stays]
    of_token = np.full(len(stays), -1)
    sequence = np.array([-1 if number is None else number for number in tokens.sequence_ids])[stays]
    spans: list[Span] = []
    of_unit: list[int] = []
    unit_texts: list[str] = []
    truncated = cut if units == "token" else 0
    for segment, text in enumerate([example.text, example.text_pair]):
        if text is None or (segment == 1 and segments == "first"):
            continue
        here = np.flatnonzero(sequence == segment)
        pieces = [offsets[index] for index in here]
        if units == "token":
            found, joined = pieces, np.arange(len(here))
        else:
            found = word_spans(text) if units == "word" else sentence_spans(text)
            if cut and segment == 0:
                # What lies wholly behind the last token that was read is cut off.
                end = max((piece[1] for piece in pieces), default=0)
                inside = [span for span in found if span[0] < end]
                truncated, found = len(found) - len(inside), inside
            joined = join(pieces, found)
        of_token[here] = np.where(joined < 0, -1, joined + len(spans))
        spans += found
        of_unit += [segment] * len(found)
        unit_texts += [text[start:end] for start, end in found]
    return Encoding(
        example=example,
        ids=torch.tensor(tokens.ids)[stays],
        units=torch.from_numpy(of_token),
        unit_texts=tuple(unit_texts),
        unit_spans=tuple(spans),
        unit_segments=tuple(of_unit),
        token_types=None if types is None else torch.tensor(types)[stays],
        truncated=truncated,
    )
