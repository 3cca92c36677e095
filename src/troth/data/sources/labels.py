"""Converts labels to class indices: whole numbers are kept, words are numbered in alphabetical order and remember their
names.

Multi-label data have sets of labels: lists (jsonl, parquet), words joined by | (csv), or a 0 or 1 per label.
"""

import math
import re
from collections.abc import Sequence
from typing import Any

from troth.core.errors import TrothError, unknown
from troth.core.types import LabelSet, is_unicode
from troth.data._classes import SORTED, Label

Indices = list[int | None]
_MOST_CLASSES = 100_000  # a larger number is an id or a mistake, and a list with that many names would fill the memory
_MISSING = ("", "nan")  # an empty cell as pandas and spreadsheets write it
SEPARATOR = "|"


def index_labels(
    source: str, values: Sequence[Any], names: tuple[str, ...], unlabelled: bool, rows: Sequence[int] = ()
) -> tuple[Indices, tuple[str, ...], str]:
    """Class index of every value, the names of the classes, and what to say about them.

    `rows` are the numbers of the rows that the values are in; by default each is in its own.

    >>> index_labels("films.csv", ["pos", "neg", "pos"], (), unlabelled=False)
    ([1, 0, 1], ('neg', 'pos'), 'labels: 0 = neg, 1 = pos (words in sorted order)')
    """
    present = [None if is_missing(value) else value for value in values]
    rows = rows or range(1, len(values) + 1)
    for number, value in zip(rows, present, strict=True):
        if value is None and not unlabelled:
            raise TrothError(f"{source}: row {number} has no label; drop it or pass --unlabelled")
        if isinstance(value, list | tuple | dict):
            raise TrothError(f"{source}: row {number} has the label {shown(value)}; each row must belong to one class")
        if isinstance(value, str) and not is_unicode(value):
            raise TrothError(f"{source}: row {number} has the label {value[:40]!a}, which is not valid Unicode")
    words = [None if value is None else _word(value) for value in present]
    known = {word for word in words if word is not None}
    if not names and known and known <= {"True", "False"}:
        names = ("False", "True")
    if names and known <= set(names):
        return _by_name(source, rows, words, names), names, ""
    if all(value is None or _number(value) is not None for value in present):
        return _by_number(source, rows, present, names), names, ""
    if names:
        return _by_name(source, rows, words, names), names, ""
    names = tuple(sorted(known))
    listed = ", ".join(f"{index} = {name}" for index, name in enumerate(names[:8])) + (", …" if len(names) > 8 else "")
    return _by_name(source, rows, words, names, ordered=False), names, f"labels: {listed} {SORTED}"


def is_missing(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, str) and value.strip().casefold() in _MISSING)
        or (isinstance(value, float) and math.isnan(value))
    )


def _word(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else _text(value).strip()


def _number(value: Any) -> float | None:
    if isinstance(value, bool | int | float):
        return _as_float(value)
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d+(\.\d*)?\s*", value):
        return _as_float(value)
    return None


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer with more than 308 digits
        return math.inf if value > 0 else -math.inf


def _text(value: Any) -> str:
    try:
        return str(value)
    except (RecursionError, ValueError):  # nested deeper, or with more digits, than Python can print
        return f"(a huge {type(value).__name__})"


def shown(value: Any) -> str:
    return _text(value)[:40]


def _by_number(source: str, rows: Sequence[int], values: Sequence[Any], names: tuple[str, ...]) -> Indices:
    indices: Indices = []
    for number, value in zip(rows, values, strict=True):
        index = None if value is None else _number(value)
        if index is not None and index >= _MOST_CLASSES:
            raise TrothError(
                f"{source}: row {number} has the label {shown(value)}, which is too large for the number of "
                "a class; classes "
                "count from 0: write them as words, or name another column with --label"
            )
        if index is not None and not index.is_integer() and math.isfinite(index):
            raise TrothError(
                f"{source}: row {number} has the label {value}; a class is a whole number or a word: "
                "name another column with --label, or pass --label '' to leave labels out"
            )
        if index is not None and index < 0:
            # On the hub, -1 is a hidden label; elsewhere it may be a class. Only the user knows.
            raise TrothError(
                f"{source}: row {number} has the label {shown(value)}; classes count from 0: drop the row, "
                "pass --label '' to leave labels out, or write the classes as words"
            )
        if index is not None and names and index >= len(names):
            numbered = ", ".join(f"{place} {name}" for place, name in enumerate(names))
            raise TrothError(f"{source}: row {number} has the label {value}; the classes are {numbered}")
        indices.append(None if index is None else Label(int(index), names))
    return indices


def _by_name(
    source: str, rows: Sequence[int], words: Sequence[str | None], names: tuple[str, ...], ordered: bool = True
) -> Indices:
    exact = {name: index for index, name in enumerate(names)}
    loose = {name.casefold(): index for name, index in exact.items()}
    indices: Indices = []
    for number, word in zip(rows, words, strict=True):
        index = None if word is None else exact.get(word, loose.get(word.casefold()))
        if word is not None and index is None:
            raise TrothError(f"{source}: row {number}: {unknown('class', word[:40], names)}")
        indices.append(None if index is None else Label(index, names, ordered))
    return indices


def are_sets(values: Sequence[Any], names: tuple[str, ...]) -> bool:
    """Whether a column of labels holds sets: a list, or words joined by |, in any row."""
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
            f"{source}: row {number} has no labels (null); write [] if no label applies, or pass --unlabelled"
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
            raise TrothError(
                f"{source}: row {number} has the labels {shown(value)}; a set may contain words and numbers"
            )
        return list(value)
    if isinstance(value, str) and not value.strip():
        return []
    if is_missing(value):
        return None
    return [part.strip() for part in value.split(SEPARATOR) if part.strip()] if _is_joined(value, names) else [value]


def _marked(values: Sequence[Any], names: tuple[str, ...]) -> bool:
    """Whether every list has a 0 or 1 for each label; a list of indices would not repeat one."""
    lists = [value for value in values if isinstance(value, list | tuple)]
    lengths = {len(value) for value in lists}
    if len(lengths) != 1 or any(isinstance(value, str) for value in values):
        return False
    (length,) = lengths
    plain = all(each in (0, 1) and not isinstance(each, str) for value in lists for each in value)
    return plain and (length == len(names) or any(len(set(value)) < length for value in lists))
