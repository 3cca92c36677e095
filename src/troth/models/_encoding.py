"""Texts to encodings: the tokenizer's own template, units by character overlap, the end of the first text cut off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from troth.errors import TrothError
from troth.models import Segments
from troth.types import Encoding, Example
from troth.units import Span, UnitKind, join, sentence_spans, word_spans


def encode(
    tokenizer: Any, examples: Iterable[Example], units: UnitKind, segments: Segments, max_length: int
) -> list[Encoding]:
    """Every example as the tokenizer's model reads it."""
    if units not in ("token", "word", "sentence"):
        raise TrothError(f"units must be token, word or sentence, not {units!r}")
    if not getattr(tokenizer, "is_fast", False):
        raise TrothError(f"{type(tokenizer).__name__} gives no character offsets; use the fast tokenizer of this model")
    examples = list(examples)
    encodings: list[Encoding | None] = [None] * len(examples)
    # Token types are what a plain call returns, so singles and pairs are tokenised apart.
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
    batch = _call(tokenizer, examples, {})
    for index, example in enumerate(examples):
        source, row, cut = batch, index, 0
        if len(batch.encodings[index].ids) > max_length:
            source, row = _truncated(tokenizer, example, max_length), 0
            cut = len(batch.encodings[index].ids) - len(source.encodings[0].ids)
        types = source.get("token_type_ids")
        yield _encoding(example, source.encodings[row], None if types is None else types[row], units, segments, cut)


def _call(tokenizer: Any, examples: Sequence[Example], options: dict[str, Any]) -> Any:
    texts = [example.text for example in examples]
    if examples[0].text_pair is None:
        return tokenizer(texts, verbose=False, **options)
    return tokenizer(texts, [example.text_pair for example in examples], verbose=False, **options)


def _truncated(tokenizer: Any, example: Example, max_length: int) -> Any:
    fixed = tokenizer.num_special_tokens_to_add(pair=example.text_pair is not None)
    if example.text_pair is not None:
        fixed += len(tokenizer(example.text_pair, add_special_tokens=False, verbose=False)["input_ids"])
    if fixed >= max_length:
        raise TrothError(
            f"example {example.id}: the second text and the special tokens take {fixed} of {max_length} tokens, "
            "so no room is left for the first; shorten the second text"
        )
    return _call(tokenizer, [example], {"truncation": "only_first", "max_length": max_length})


def _encoding(
    example: Example, tokens: Any, types: Sequence[int] | None, units: UnitKind, segments: Segments, cut: int
) -> Encoding:
    of_token = np.full(len(tokens.ids), -1)
    sequence = np.array([-1 if number is None else number for number in tokens.sequence_ids])
    spans: list[Span] = []
    of_unit: list[int] = []
    unit_texts: list[str] = []
    truncated = cut if units == "token" else 0
    for segment, text in enumerate([example.text, example.text_pair]):
        if text is None or (segment == 1 and segments == "first"):
            continue
        here = np.flatnonzero(sequence == segment)
        pieces = [tokens.offsets[index] for index in here]
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
        ids=torch.tensor(tokens.ids),
        units=torch.from_numpy(of_token),
        unit_texts=tuple(unit_texts),
        unit_spans=tuple(spans),
        unit_segments=tuple(of_unit),
        token_types=None if types is None else torch.tensor(types),
        truncated=truncated,
    )
