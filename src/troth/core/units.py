"""Words and sentences of a text (Unicode UAX-29), and which of them a piece of text belongs to.

The third-party `regex` module knows the Unicode properties; its own word boundary is tailored to French and Italian
apostrophes, so the default rules are spelled out here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import regex
from numpy.typing import NDArray

Span = tuple[int, int]
UnitKind = Literal["token", "word", "sentence"]


def word_spans(text: str) -> list[Span]:
    """Character spans of every word of the text, punctuation included, white space left out.

    >>> [text[a:b] for text in ["can't pay $3.50!"] for a, b in word_spans(text)]
    ["can't", 'pay', '$', '3.50', '!']
    """
    if text.isascii():
        return [match.span() for match in _ASCII_WORD.finditer(text)]
    return list(_words(text))


def words_until(text: str, end: int) -> tuple[list[Span], int]:
    """The words that start before `end`, and how many come after them.

    >>> words_until("it was not good", 7)
    ([(0, 2), (3, 6)], 2)
    """
    words = _words(text)
    spans: list[Span] = []
    for span in words:
        if span[0] >= end:
            return spans, 1 + sum(1 for _ in words)
        spans.append(span)
    return spans, 0


def _words(text: str) -> Iterator[Span]:
    if text.isascii():
        return (match.span() for match in _ASCII_WORD.finditer(text))
    return (match.span() for match in _WORD.finditer(text) if not match[0].isspace())


def sentence_spans(text: str) -> list[Span]:
    """Character spans of every sentence, without the white space around it.

    >>> [text[a:b] for text in ["It cost 3.5 euros. Nobody (not one) came!"] for a, b in sentence_spans(text)]
    ['It cost 3.5 euros.', 'Nobody (not one) came!']
    """
    cuts = [0, *(end for end in _sentence_ends(text)), len(text)]
    spans = []
    for start, end in itertools.pairwise(cuts):
        piece = text[start:end]
        stripped = piece.strip()
        if stripped:
            left = start + len(piece) - len(piece.lstrip())
            spans.append((left, left + len(stripped)))
    return spans


def join(pieces: Sequence[Span] | NDArray[np.int64], units: Sequence[Span]) -> NDArray[np.int64]:
    """The unit of every piece: the first one it overlaps, else the next one, at the end the last; -1 without units."""
    if not units:
        return np.full(len(pieces), -1)
    starts, _ends = np.array(pieces, dtype=np.int64).reshape(-1, 2).T
    unit_ends = np.array([end for _, end in units])
    # The first unit that ends after the piece's start either overlaps the piece or is the next one.
    numbers = np.searchsorted(unit_ends, starts, side="right")
    # A piece without characters (a lone word-start mark) overlaps nothing and joins what follows it.
    return np.minimum(numbers, len(units) - 1)


def _property(*names: str) -> str:
    return "[" + "".join(rf"\p{{WB={name}}}" for name in names) + "]"


_SKIP = _property("Extend", "Format", "ZWJ") + "*+"
_LETTER = _property("ALetter", "Hebrew_Letter") + _SKIP
_HEBREW = _property("Hebrew_Letter") + _SKIP
_NUMBER = _property("Numeric") + _SKIP
_BETWEEN_LETTERS = _property("MidLetter", "MidNumLet", "Single_Quote") + _SKIP
_BETWEEN_NUMBERS = _property("MidNum", "MidNumLet", "Single_Quote") + _SKIP
_KATAKANA = _property("Katakana") + _SKIP
_CONNECTOR = _property("ExtendNumLet") + _SKIP
_FLAG = _property("Regional_Indicator") + _SKIP

_RUN = (
    rf"(?:{_HEBREW}(?:{_property('Double_Quote')}{_SKIP}(?={_HEBREW}))"
    rf"|{_LETTER}(?:{_BETWEEN_LETTERS}(?={_LETTER}))?"
    rf"|{_NUMBER}(?:{_BETWEEN_NUMBERS}(?={_NUMBER}))?)"
)
_BODY = rf"(?:{_RUN}++|(?:{_KATAKANA})++)"
# A Hebrew letter keeps a single quote after it (geresh), and there the word ends.
_GERESH = (
    rf"(?:(?<={_property('Hebrew_Letter')}{_property('Extend', 'Format', 'ZWJ')}*){_property('Single_Quote')}{_SKIP})?"
)
_WORD = regex.compile(
    rf"(?:\r\n|{_property('CR', 'LF', 'Newline')}|{_property('WSegSpace')}++{_SKIP}"
    rf"|(?:{_CONNECTOR})*+{_BODY}(?:(?:{_CONNECTOR})++{_BODY})*+(?:{_CONNECTOR})*+{_GERESH}"
    rf"|(?:{_CONNECTOR})++|{_FLAG}{_FLAG}|(?s:.){_SKIP})"
    rf"(?:(?<=\u200d)\p{{Extended_Pictographic}}{_SKIP})*+",
    regex.V1,
)


def _ascii(*names: str) -> str:
    """The ASCII characters of some classes, as they are written inside brackets."""
    members = regex.compile(_property(*names), regex.V1)
    return "".join(re.escape(character) for character in map(chr, range(128)) if members.match(character))


# The same rules where nothing but ASCII is written, forty times as fast. White space is not matched at all.
_ASCII_LETTER, _ASCII_NUMBER = _ascii("ALetter"), _ascii("Numeric")
_ASCII_WORD = re.compile(
    rf"(?:[{_ASCII_LETTER}]++(?:[{_ascii('MidLetter', 'MidNumLet', 'Single_Quote')}](?=[{_ASCII_LETTER}]))?+"
    rf"|[{_ASCII_NUMBER}]++(?:[{_ascii('MidNum', 'MidNumLet', 'Single_Quote')}](?=[{_ASCII_NUMBER}]))?+"
    rf"|[{_ascii('ExtendNumLet')}]++)++|\S"
)

_IGNORED = r"[\p{SB=Extend}\p{SB=Format}]*+"
_PARAGRAPH = r"(?:\r\n|[\p{SB=Sep}\p{SB=CR}\p{SB=LF}])"
_TERMINATOR = regex.compile(
    rf"{_PARAGRAPH}|(?P<mark>[\p{{SB=STerm}}\p{{SB=ATerm}}]){_IGNORED}"
    rf"(?P<close>(?:\p{{SB=Close}}{_IGNORED})*+)(?P<space>(?:\p{{SB=Sp}}{_IGNORED})*+)(?P<paragraph>{_PARAGRAPH})?",
    regex.V1,
)
_FULL_STOP = regex.compile(r"\p{SB=ATerm}", regex.V1)
_GOES_ON = regex.compile(r"[\p{SB=SContinue}\p{SB=STerm}\p{SB=ATerm}]", regex.V1)
_LOWER_FOLLOWS = regex.compile(
    r"[^\p{SB=OLetter}\p{SB=Upper}\p{SB=Lower}\p{SB=Sep}\p{SB=CR}\p{SB=LF}\p{SB=STerm}\p{SB=ATerm}]*+\p{SB=Lower}",
    regex.V1,
)
_INITIAL = regex.compile(rf"[\p{{SB=Upper}}\p{{SB=Lower}}]{_IGNORED}$", regex.V1)


def _sentence_ends(text: str) -> list[int]:
    ends = []
    for match in _TERMINATOR.finditer(text):
        if match["mark"] is None or match["paragraph"] or not _same_sentence(text, match):
            ends.append(match.end())
    return ends


def _same_sentence(text: str, match: regex.Match[str]) -> bool:
    end = match.end()
    if end == len(text):
        return True  # the text ends here anyway
    if _GOES_ON.match(text, end):
        return True
    if not _FULL_STOP.match(match["mark"]):
        return False
    bare = not match["close"] and not match["space"]
    if bare and regex.match(r"\p{SB=Numeric}", text[end], regex.V1):
        return True
    if bare and regex.match(r"\p{SB=Upper}", text[end], regex.V1) and _INITIAL.search(text, 0, match.start()):
        return True
    return _LOWER_FOLLOWS.match(text, end) is not None
