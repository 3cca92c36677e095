"""Classes as numbers: whole numbers stay, words are numbered in the order of their names."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from troth.errors import TrothError, unknown

Indices = list[int | None]


def index_labels(
    source: str, values: Sequence[Any], names: tuple[str, ...], unlabelled: bool
) -> tuple[Indices, tuple[str, ...], str]:
    """Class index of every row, the names of the classes, and what to say about them.

    >>> index_labels("films.csv", ["pos", "neg", "pos"], (), unlabelled=False)
    ([1, 0, 1], ('neg', 'pos'), 'labels: 0 = neg, 1 = pos (words in sorted order)')
    """
    present = [None if _missing(value) else value for value in values]
    for number, value in enumerate(present, start=1):
        if value is None and not unlabelled:
            raise TrothError(f"{source}: row {number} has no label; drop it or pass --unlabelled")
        if isinstance(value, list | tuple | dict):
            raise TrothError(f"{source}: row {number} has the label {str(value)[:40]}; a row belongs to one class")
    words = [None if value is None else _word(value) for value in present]
    known = {word for word in words if word is not None}
    if not names and known and known <= {"True", "False"}:
        names = ("False", "True")
    if names and known <= set(names):
        return _by_name(source, words, names), names, ""
    if all(value is None or _number(value) is not None for value in present):
        return _by_number(source, present, names), names, ""
    if names:
        return _by_name(source, words, names), names, ""
    names = tuple(sorted(known))
    listed = ", ".join(f"{index} = {name}" for index, name in enumerate(names[:8])) + (", …" if len(names) > 8 else "")
    return _by_name(source, words, names), names, f"labels: {listed} (words in sorted order)"


def _missing(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, str) and not value.strip())
        or (isinstance(value, float) and math.isnan(value))
    )


def _word(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _number(value: Any) -> float | None:
    if isinstance(value, bool | int | float):
        return float(value)
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d+(\.\d*)?\s*", value):
        return float(value)
    return None


def _by_number(source: str, values: Sequence[Any], names: tuple[str, ...]) -> Indices:
    indices: Indices = []
    for number, value in enumerate(values, start=1):
        index = None if value is None else _number(value)
        if index is not None and not index.is_integer():
            raise TrothError(f"{source}: row {number} has the label {value}; a class is a whole number or a word")
        if index is not None and index < 0:
            # On the hub -1 stands for a hidden label; elsewhere it may be a class. Nobody but the user knows.
            raise TrothError(
                f"{source}: row {number} has the label {value}; classes count from 0: drop the row, "
                "pass --label '' to leave labels out, or write the classes as words"
            )
        if index is not None and names and index >= len(names):
            raise TrothError(f"{source}: row {number} has the label {value}; the classes are {_numbered(names)}")
        indices.append(None if index is None else int(index))
    return indices


def _by_name(source: str, words: Sequence[str | None], names: tuple[str, ...]) -> Indices:
    exact = {name: index for index, name in enumerate(names)}
    loose = {name.casefold(): index for name, index in exact.items()}
    indices: Indices = []
    for number, word in enumerate(words, start=1):
        index = None if word is None else exact.get(word, loose.get(word.casefold()))
        if word is not None and index is None:
            raise TrothError(f"{source}: row {number}: {unknown('class', word, names)}")
        indices.append(index)
    return indices


def _numbered(names: tuple[str, ...]) -> str:
    return ", ".join(f"{index} {name}" for index, name in enumerate(names))
