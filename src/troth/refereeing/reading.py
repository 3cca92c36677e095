"""Reads what a function returned for one text, as one score per word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from troth.core.errors import TrothError
from troth.core.example import Example
from troth.core.scored import locate, parts
from troth.core.user_code import shown
from troth.refereeing.situations import Floats, Situation, Text

Span = tuple[int, int]
FORMS = "one number per token, [(token, score), …], (tokens, scores), [((start, end), score), …] or a troth.Attribution"


class NotReadableError(TrothError):
    """The result has an unknown format, or does not belong to the text."""


@dataclass(frozen=True, eq=False)
class WordScores:
    """The scores of the words between blanks; in a pair of texts, of the first text."""

    words: tuple[str, ...]
    scores: Floats  # [words]
    scored: tuple[bool, ...]  # [words] whether any token or span of the word has a score
    rest: float = 0.0  # the scores of special tokens and of the second text

    def of(self, word: str) -> float:
        return float(self.scores[self.words.index(word)])

    def __str__(self) -> str:
        return numbers(self.scores, self.words)


def numbers(values: Sequence[float] | Floats, words: Sequence[str] = ()) -> str:
    """The scores as text, each with its word.

    >>> numbers([0.5, -1], ["good", "film"]), numbers([1e-9])
    ('good 0.5, film -1', '1e-09')
    """
    names = [f"{word} " for word in words] or [""] * len(values)
    return ", ".join(f"{name}{value:.4g}" for name, value in zip(names, values, strict=True)) or "no scores"


def words_of(text: Text) -> list[Span]:
    """The character spans of the words of the (first) text."""
    return [match.span() for match in re.finditer(r"\S+", text if isinstance(text, str) else text[0])]


def read(result: Any, place: Situation, text: Text) -> WordScores:
    """The scores of tokens or spans, summed over each word."""
    first = text if isinstance(text, str) else text[0]
    spans, scores = _spans(result, place, text)
    words = words_of(text)
    sums, scored, rest = np.zeros(len(words)), [False] * len(words), 0.0
    for span, score in zip(spans, scores, strict=True):
        owner = None if span is None else _owner(span, words)
        if owner is None:
            rest += score
        else:
            sums[owner] += score
            scored[owner] = scored[owner] or not np.isnan(score)
    return WordScores(tuple(first[start:end] for start, end in words), sums, tuple(scored), rest)


def _owner(span: Span, words: Sequence[Span]) -> int | None:
    """The first word that a span overlaps; None for an empty span or white space."""
    return next((number for number, (start, end) in enumerate(words) if span[0] < end and start < span[1]), None)


def _spans(result: Any, place: Situation, text: Text) -> tuple[list[Span | None], list[float]]:
    first, second = (text, None) if isinstance(text, str) else text
    if hasattr(result, "scores") and hasattr(result, "spans"):  # a troth.Attribution
        segments = result.question.encoding.unit_segments or (0,) * len(result.spans)
        spans = [span if segment == 0 else None for span, segment in zip(result.spans, segments, strict=True)]
        return [*spans, None], [*map(float, result.scores), float(result.rest)]
    result = _flat(result)
    found = parts(result, first, 0)
    if found.scores is None:
        raise NotReadableError(f"it returned {shown(result)}; return {FORMS}")
    scores = [float(score) for score in found.scores]
    if found.tokens is not None and len(found.tokens) not in _lengths(place, text):
        try:
            return locate(Example("text", first, second), found.tokens), scores
        except TrothError as error:
            raise NotReadableError(str(error).partition("; pass spans")[0]) from None
    if found.spans is not None and found.tokens is None and not _plain(result):
        outside = [span for span in found.spans if not 0 <= span[0] <= span[1] <= len(first)]
        if outside:
            raise NotReadableError(f"span {outside[0]} lies outside a text of {len(first)} characters")
        return list(found.spans), scores
    offsets = _lengths(place, text).get(len(scores))
    if offsets is None:
        wanted = " or ".join(map(str, _lengths(place, text)))
        raise NotReadableError(f"{len(scores)} scores for a text of {wanted} tokens or words")
    return offsets, scores


def _flat(result: Any) -> Any:
    """Converts [((start, end), score), …] to [(start, end, score), …]."""
    is_list = isinstance(result, list | tuple) and result
    if is_list and all(isinstance(row, list | tuple) and len(row) == 2 and _is_pair(row[0]) for row in result):
        return [(*span, score) for span, score in result]
    return result


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(hasattr(each, "__index__") for each in value)


def _plain(result: Any) -> bool:
    """Whether a result is a flat list of numbers."""
    rows = result.tolist() if hasattr(result, "tolist") else result
    return all(hasattr(row, "__float__") for row in rows)


def _lengths(place: Situation, text: Text) -> dict[int, list[Span | None]]:
    """The accepted numbers of scores and the spans they belong to: tokens with and without special tokens, or words."""
    known: dict[int, list[Span | None]] = {}
    for truncation in (False, True):
        encoded = place.ids(text, truncation=truncation)
        rows = [
            span if owner == 0 else None
            for span, owner in zip(encoded["offset_mapping"], encoded.sequence_ids(), strict=True)
        ]
        known.setdefault(len(rows), rows)
        inside = [row for row, owner in zip(rows, encoded.sequence_ids(), strict=True) if owner is not None]
        known.setdefault(len(inside), inside)
    known.setdefault(len(words_of(text)), list(words_of(text)))
    return known
