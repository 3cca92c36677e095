"""Splits texts into words, sentences (Unicode UAX-29) and passages, and assigns pieces of text to them.

The third-party `regex` module provides the Unicode properties; its own word boundary is tailored to French and Italian
apostrophes, so the default rules are implemented here.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, get_args

import numpy as np
import regex
from numpy.typing import NDArray

from troth.core.errors import TrothError

Span = tuple[int, int]
UnitName = Literal["token", "word", "sentence", "passage"]
UnitKind = UnitName | tuple[Span, ...]  # a name, or the user's own character spans of the text
UNIT_NAMES: tuple[UnitName, ...] = get_args(UnitName)
OWN = "span"  # the name of units that the user has given


def word_spans(text: str) -> list[Span]:
    """Character spans of every word of the text, including punctuation but not white space.

    >>> [text[a:b] for text in ["can't pay $3.50!"] for a, b in word_spans(text)]
    ["can't", 'pay', '$', '3.50', '!']
    """
    return list(_words(text))


def words_until(text: str, end: int) -> tuple[list[Span], int]:
    """The words that start before `end`, and the number of words after them.

    >>> words_until("it was not good", 7)
    ([(0, 2), (3, 6)], 2)
    """
    words = iter(_words(text))
    spans: list[Span] = []
    for span in words:
        if span[0] >= end:
            return spans, 1 + sum(1 for _ in words)
        spans.append(span)
    return spans, 0


def _words(text: str) -> Iterable[Span]:
    if text.isascii():
        starts, ends, _ = ascii_words([text])
        return zip(starts.tolist(), ends.tolist(), strict=True)
    return (match.span() for match in _WORD.finditer(text) if not match[0].isspace())


def sentence_spans(text: str) -> list[Span]:
    """Character spans of every sentence, without the surrounding white space.

    >>> [text[a:b] for text in ["It cost 3.5 euros. Nobody (not one) came!"] for a, b in sentence_spans(text)]
    ['It cost 3.5 euros.', 'Nobody (not one) came!']
    """
    return _stripped(text, itertools.pairwise([0, *_sentence_ends(text), len(text)]))


def passage_spans(text: str) -> list[Span]:
    """Character spans of every passage, without the surrounding white space; blank lines separate passages.

    >>> [text[a:b] for text in ["A title\\n\\nTwo lines\\nof it \\n \\nThe end\\n"] for a, b in passage_spans(text)]
    ['A title', 'Two lines\\nof it', 'The end']
    """
    cuts = [0, *itertools.chain.from_iterable(match.span() for match in _BLANK_LINES.finditer(text)), len(text)]
    return _stripped(text, zip(cuts[::2], cuts[1::2], strict=True))


def spans_of(units: str) -> Callable[[str], list[Span]]:
    """The function that finds the units of a text without a model; tokens, which only a model knows, are replaced by
    words.
    """
    return {"sentence": sentence_spans, "passage": passage_spans}.get(units, word_spans)


def own_spans(units: Sequence[Any], text: str) -> list[Span]:
    """Checks the user's own units of a text: in reading order, without overlap, within the text."""
    for unit in units:
        if not is_span(unit):
            raise TrothError(f"units must be a name ({', '.join(UNIT_NAMES)}) or pairs (start, end), not {unit!r}")
    spans = [(int(start), int(end)) for start, end in units]
    if not spans:
        raise TrothError("units contains no (start, end); give at least one, or a name such as word")
    for start, end in spans:
        if not 0 <= start < end <= len(text):
            wrong = "is empty" if start == end else "ends before it starts" if start > end else "leaves the text"
            raise TrothError(f"units: ({start}, {end}) {wrong}; {text[:30]!r} has {len(text)} characters")
    for first, second in itertools.pairwise(spans):
        if second[0] < first[1]:
            wrong = "overlap" if second[1] > first[0] else "are not in reading order"
            raise TrothError(f"units: {first} and {second} {wrong}; give spans in reading order that do not overlap")
    return spans


def is_span(value: Any) -> bool:
    """Whether a value is a pair (start, end)."""
    is_pair = isinstance(value, Sequence | np.ndarray) and len(value) == 2
    return is_pair and all(isinstance(edge, int | np.integer) and not isinstance(edge, bool) for edge in value)


def join(
    pieces: Sequence[Span] | NDArray[np.int64], units: Sequence[Span], *, touching: bool = False
) -> NDArray[np.int64]:
    """The unit of each piece of text: the first one it overlaps, else the next one, else the last; -1 if there is none.

    With `touching`, a piece that overlaps no unit gets -1.
    """
    if not units:
        return np.full(len(pieces), -1)
    starts, ends = np.array(pieces, dtype=np.int64).reshape(-1, 2).T
    unit_ends = np.array([end for _, end in units])
    # The first unit that ends after the piece's start either overlaps the piece or is the next one.
    numbers = np.searchsorted(unit_ends, starts, side="right")
    # A piece without characters (a lone mark of a word start) overlaps nothing and belongs to the unit after it.
    numbers = np.minimum(numbers, len(units) - 1)
    if not touching:
        return numbers
    unit_starts = np.array([start for start, _ in units])
    return np.where((ends > unit_starts[numbers]) & (starts < unit_ends[numbers]), numbers, -1)


def _stripped(text: str, pieces: Iterable[Span]) -> list[Span]:
    """Strips the white space around pieces of a text, and drops empty pieces."""
    spans = []
    for start, end in pieces:
        piece = text[start:end]
        stripped = piece.strip()
        if stripped:
            left = start + len(piece) - len(piece.lstrip())
            spans.append((left, left + len(stripped)))
    return spans


_LINE_END = r"(?>\r\n|[\n\r\x85\u2028\u2029])"
_BLANK_LINES = re.compile(rf"{_LINE_END}\s*{_LINE_END}")


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
# A Hebrew letter keeps a single quote after it (geresh), and the word ends there.
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


def _ascii(pattern: str) -> NDArray[np.bool_]:
    """[128] whether each ASCII character matches."""
    return np.array([regex.match(pattern, character, regex.V1) is not None for character in map(chr, range(128))])


# A vectorized version of the same rules for ASCII text.
_SPACE = np.array([chr(code).isspace() for code in range(128)])
_IS_LETTER, _IS_NUMBER = _ascii(_property("ALetter")), _ascii(_property("Numeric"))
_IS_RUN = _IS_LETTER | _IS_NUMBER | _ascii(_property("ExtendNumLet"))
_IS_BETWEEN_LETTERS = _ascii(_property("MidLetter", "MidNumLet", "Single_Quote"))
_IS_BETWEEN_NUMBERS = _ascii(_property("MidNum", "MidNumLet", "Single_Quote"))


def ascii_words(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The starts and ends of the words of all texts, which are joined by line breaks; and the start of each text."""
    # Padded with spaces, so that every character has neighbors.
    codes = np.frombuffer(f"  {chr(10).join(texts)}  ".encode("ascii"), np.uint8)
    run, letter, number = _IS_RUN[codes], _IS_LETTER[codes], _IS_NUMBER[codes]
    # Such a character between two letters, or between two numbers, belongs to both its neighbors.
    between = np.zeros(len(codes), np.bool_)
    between[1:-1] = (_IS_BETWEEN_LETTERS[codes[1:-1]] & letter[:-2] & letter[2:]) | (
        _IS_BETWEEN_NUMBERS[codes[1:-1]] & number[:-2] & number[2:]
    )
    inside = run | between
    joins = inside[1:] & inside[:-1]  # character i + 1 continues the word of character i
    black = ~_SPACE[codes]
    starts = np.flatnonzero(black[1:] & ~joins) + 1
    ends = np.flatnonzero(black[:-1] & ~joins) + 1
    begins = np.cumsum([0, *[len(text) + 1 for text in texts]])[:-1]
    return starts - 2, ends - 2, begins
