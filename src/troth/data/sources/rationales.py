"""What a human marked, as character spans, from the forms it comes in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from troth.core.reading import parse_json
from troth.core.units import Span


def read_rationale(value: Any, text: str) -> tuple[Span, ...] | None:
    """Character spans from [[start, end], …] or ERASER's groups of token offsets; a ValueError says what is wrong."""
    if isinstance(value, str):
        try:
            value = parse_json(value) if value.strip() else None
        except ValueError:
            raise ValueError("the rationale is text, not a list of [start, end]") from None
    if value is None:
        return None
    if not isinstance(value, Sequence):
        raise ValueError(f"the rationale is {type(value).__name__}, not a list of [start, end]")
    pieces = [piece for group in value for piece in (group if _is_group(group) else [group])]
    if pieces and all(isinstance(piece, dict) for piece in pieces):
        try:
            return token_spans(text, [(piece["start_token"], piece["end_token"]) for piece in pieces])
        except KeyError as problem:
            raise ValueError(f"a piece of the rationale has no {problem.args[0]}") from None
        except TypeError:
            raise ValueError("start_token and end_token of the rationale must be whole numbers") from None
    return tuple(_character_span(piece, text) for piece in pieces)


def token_spans(text: str, pieces: Iterable[tuple[int, int]]) -> tuple[Span, ...]:
    """Character spans of [start, end) ranges of white-space tokens; what overlaps is joined.

    An empty range marks nothing: ERASER's film reviews have twenty of them.

    >>> token_spans("a good film .", [(1, 3), (2, 4)])
    ((2, 13),)
    """
    tokens = [match.span() for match in re.finditer(r"\S+", text)]
    spans: list[Span] = []
    for start, end in sorted(pieces):
        if not 0 <= start <= end <= len(tokens):
            raise ValueError(f"the rationale names tokens {start} to {end}, the text has {len(tokens)}")
        if start == end:
            continue
        first, last = tokens[start][0], tokens[end - 1][1]
        if spans and first < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(last, spans[-1][1]))
        else:
            spans.append((first, last))
    return tuple(spans)


def _is_group(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(piece, dict) for piece in value)


def _character_span(piece: Any, text: str) -> Span:
    if not isinstance(piece, list | tuple) or len(piece) != 2 or not all(type(edge) is int for edge in piece):
        raise ValueError(f"{str(piece)[:40]!r} in the rationale is no [start, end]")
    start, end = piece
    if not 0 <= start < end <= len(text):
        raise ValueError(f"the rationale marks characters {start} to {end}, the text has {len(text)}")
    return start, end
