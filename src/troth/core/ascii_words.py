"""The words of many ASCII texts at once, by the rules of `units.word_spans`, in a few array operations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from troth.core.units import ascii_members


def _members(characters: str) -> NDArray[np.bool_]:
    """[256] whether each code is one of these."""
    table = np.zeros(256, np.bool_)
    table[[ord(character) for character in characters]] = True
    return table


_SPACE = _members("".join(character for character in map(chr, range(128)) if character.isspace()))
_LETTER, _NUMBER = _members(ascii_members("ALetter")), _members(ascii_members("Numeric"))
_RUN = _LETTER | _NUMBER | _members(ascii_members("ExtendNumLet"))
_BETWEEN_LETTERS = _members(ascii_members("MidLetter", "MidNumLet", "Single_Quote"))
_BETWEEN_NUMBERS = _members(ascii_members("MidNum", "MidNumLet", "Single_Quote"))


def ascii_words(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Where the words of all texts start and end, a line break between two texts; and where each text starts."""
    # A space on either side, so that everything has a neighbor.
    codes = np.frombuffer(f"  {chr(10).join(texts)}  ".encode("ascii"), np.uint8)
    run, letter, number = _RUN[codes], _LETTER[codes], _NUMBER[codes]
    # What stands between two letters, or between two numbers, belongs to both its neighbors.
    between = np.zeros(len(codes), np.bool_)
    between[1:-1] = (_BETWEEN_LETTERS[codes[1:-1]] & letter[:-2] & letter[2:]) | (
        _BETWEEN_NUMBERS[codes[1:-1]] & number[:-2] & number[2:]
    )
    inside = run | between
    joins = inside[1:] & inside[:-1]  # place i + 1 continues where place i ended
    black = ~_SPACE[codes]
    starts = np.flatnonzero(black[1:] & ~joins) + 1
    ends = np.flatnonzero(black[:-1] & ~joins) + 1
    begins = np.cumsum([0, *[len(text) + 1 for text in texts]])[:-1]
    return starts - 2, ends - 2, begins
