"""Sets of labels, for multi-label data: lists (jsonl, parquet), words joined by | (csv), or a 0 or 1 per label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from troth.core.errors import TrothError
from troth.core.types import LabelSet
from troth.data.sources.labels import index_labels, is_missing, shown

SEPARATOR = "|"


def are_sets(values: Sequence[Any], names: tuple[str, ...]) -> bool:
    """Whether a column of labels holds sets: a list, or words with | between them, in any row."""
    return any(isinstance(value, list | tuple) or _is_joined(value, names) for value in values)


def index_label_sets(
    source: str, values: Sequence[Any], names: tuple[str, ...], unlabelled: bool
) -> tuple[list[LabelSet | None], tuple[str, ...], str]:
    """The labels of every row as numbers, the names of all labels, and what to say about them.

    An empty list or cell is a row of which no label holds. Lists of one length with nothing but 0 and 1 in them say of
    every label whether it holds.

    >>> sets, names, _ = index_label_sets("mails.csv", ["b|a", "a", ""], (), unlabelled=False)
    >>> sets, names
    ([(1, 0), (0,), ()], ('a', 'b'))
    """
    held = [_parts(source, number, value, names) for number, value in enumerate(values, start=1)]
    marked = _marked(values, names)
    if marked:
        held = [None if row is None else [place for place, mark in enumerate(row) if mark] for row in held]
    if any(row is None for row in held) and not unlabelled:
        number = held.index(None) + 1
        raise TrothError(
            f"{source}: row {number} has no labels (null); write [] where none holds, or pass --unlabelled"
        )
    rows = [number for number, row in enumerate(held, start=1) for _ in row or ()]
    indices, names, note = index_labels(source, [each for row in held for each in row or ()], names, False, rows)
    flat = iter(indices)
    sets: list[LabelSet | None] = [
        None if row is None else tuple(dict.fromkeys(index for _ in row if (index := next(flat)) is not None))
        for row in held
    ]
    empty = sum(row == () for row in sets)
    parts = [
        "labels: sets" + (", a 0 or 1 for each label" if marked else ""),
        f"{empty:,} of {len(sets):,} rows have none" if empty else "",
        note.removeprefix("labels: "),
    ]
    return sets, names, "; ".join(filter(None, parts))


def _is_joined(value: Any, names: tuple[str, ...]) -> bool:
    return isinstance(value, str) and SEPARATOR in value and value.strip() not in names


def _parts(source: str, number: int, value: Any, names: tuple[str, ...]) -> list[Any] | None:
    if isinstance(value, list | tuple):
        if any(is_missing(each) or isinstance(each, list | tuple | dict) for each in value):
            raise TrothError(f"{source}: row {number} has the labels {shown(value)}; a set holds words or numbers")
        return list(value)
    if isinstance(value, str) and not value.strip():
        return []
    if is_missing(value):
        return None
    return [part.strip() for part in value.split(SEPARATOR) if part.strip()] if _is_joined(value, names) else [value]


def _marked(values: Sequence[Any], names: tuple[str, ...]) -> bool:
    """Whether every list says of each label whether it holds: a list of numbers would name none twice."""
    lists = [value for value in values if isinstance(value, list | tuple)]
    lengths = {len(value) for value in lists}
    if len(lengths) != 1 or any(isinstance(value, str) for value in values):
        return False
    (length,) = lengths
    plain = all(each in (0, 1) and not isinstance(each, str) for value in lists for each in value)
    return plain and (length == len(names) or any(len(set(value)) < length for value in lists))
