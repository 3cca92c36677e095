"""What the model said of inputs, above all as they are and with everything erased: methods ask for these again."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Mapping

from torch import Tensor

from troth.core.types import Encoding
from troth.engine.answers import Name

Block = Mapping[Name, Tensor]  # the answers to some rows: [rows, ...]
CachedRow = tuple[Block, int]  # and which of them it is


class RowCache:
    """Rows of one group, for as long as somebody holds the encoding.

    Of a question with at most `few` rows all are remembered: recursive methods erase a unit and explain what is left,
    which they have asked about before. That takes Python longer than it takes a GPU to read them again.
    """

    def __init__(self, few: int = 0) -> None:
        self.few = few
        self._whole: weakref.WeakKeyDictionary[Encoding, dict[Hashable, CachedRow]] = weakref.WeakKeyDictionary()
        # What rows of one question are about, what each keeps, one after another, and where the block has the first.
        self._erased: weakref.WeakKeyDictionary[Encoding, list[tuple[Hashable, bytes, CachedRow]]]
        self._erased = weakref.WeakKeyDictionary()

    def has_erased(self, encoding: Encoding) -> bool:
        """Whether a row is known of which something is erased."""
        return encoding in self._erased

    def whole(self, encoding: Encoding, about: Hashable) -> CachedRow | None:
        """The answers to the input of which nothing is erased, if it was asked for before."""
        return self._whole.get(encoding, {}).get(about)

    def erased(self, encoding: Encoding, about: Hashable, kept: bytes) -> CachedRow | None:
        """The answers to a row that keeps no more than this."""
        for other, rows, (block, first) in self._erased.get(encoding, ()):
            place = rows.find(kept) if other == about else -1
            while place % len(kept) and place >= 0:  # across the border of two rows
                place = rows.find(kept, place + 1)
            if place >= 0:
                return block, first + place // len(kept)
        return None

    def add_whole(self, encoding: Encoding, about: Hashable, row: CachedRow) -> None:
        """Remembers an input of which nothing is erased; the first answer stays."""
        self._whole.setdefault(encoding, {}).setdefault(about, row)

    def add_erased(self, encoding: Encoding, about: Hashable, kept: bytes, first: CachedRow) -> None:
        """Remembers rows of one question, which lie one after another in a block."""
        self._erased.setdefault(encoding, []).append((about, kept, first))

    def forget_erased(self) -> None:
        """Keeps only inputs as they are, of which nothing is erased."""
        self._erased.clear()
