"""What the model said of inputs, above all as they are and with everything erased: methods ask for these again."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Mapping

import torch
from torch import Tensor

from troth.core.types import Encoding
from troth.engine.answers import Name

Row = Mapping[Name, Tensor]  # the answers to one row: [1, ...]
# A row of an encoding: what is asked of it and in which state, and which units it keeps (None = all).
RowName = tuple[Hashable, bytes | None]


class RowCache:
    """Rows by their names, for as long as somebody holds the encoding.

    Of a question with at most `few` rows all are remembered: recursive methods erase a unit and explain what is left,
    which they have asked about before. That takes Python longer than it takes a GPU to read them again.
    """

    def __init__(self, few: int = 0) -> None:
        self.few = few
        self._rows: weakref.WeakKeyDictionary[Encoding, dict[RowName, Row]] = weakref.WeakKeyDictionary()

    def has_erased(self, encoding: Encoding) -> bool:
        """Whether a row is known of which something is erased."""
        return any(kept is not None for _, kept in self._rows.get(encoding, ()))

    def find(self, encoding: Encoding, name: RowName) -> Row | None:
        """The answers to a row, if it was asked for before."""
        return self._rows.get(encoding, {}).get(name)

    def add(self, encoding: Encoding, name: RowName, row: Row) -> None:
        """Remembers a row; the first answer stays."""
        self._rows.setdefault(encoding, {}).setdefault(name, row)

    def forget_erased(self) -> None:
        """Keeps only inputs as they are, of which nothing is erased."""
        for encoding, rows in self._rows.items():
            self._rows[encoding] = {name: row for name, row in rows.items() if name[1] is None}


def rows_of(parts: Mapping[Name, Tensor], places: list[int]) -> list[Row]:
    """Some rows of a buffer, each on its own, without holding on to the others."""
    index = torch.tensor(places)
    chosen = {name: part[index] for name, part in parts.items()}
    return [{name: part[row : row + 1] for name, part in chosen.items()} for row in range(len(places))]
