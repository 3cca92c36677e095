"""Reads scores that another program computed, and finds the tokens or characters of the text they belong to."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

from troth.core.errors import TrothError
from troth.core.example import Example
from troth.core.units import Span

# Markers of word boundaries in tokenizer output; a token is first tried unchanged.
_MARKS = re.compile(r"^##|[ĠĊ▁]|</w>$|@@$")
_UNKNOWN = ("[UNK]", "<unk>")


class Scored(NamedTuple):
    scores: Any  # None if it cannot be read
    spans: list[tuple[int, int]] | None = None
    tokens: list[str] | None = None


def parts(result: Any, text: str, n_units: int) -> Scored:
    """What the scores refer to, inferred from the shape of a function's return value."""
    if hasattr(result, "detach"):
        result = result.detach().double().cpu()
    if hasattr(result, "tolist"):
        result = result.tolist()
    if not isinstance(result, list | tuple):
        return Scored(None)
    if all(map(_is_number, result)):
        words = [match.span() for match in re.finditer(r"\S+", text)]
        between_blanks = len(result) == len(words) != n_units
        return Scored(list(result), words if between_blanks else None)
    if len(result) == 2 and all(hasattr(part, "__len__") and not isinstance(part, str) for part in result):
        units, scores = result
        if len(units) == len(scores) and all(isinstance(unit, str) for unit in units):
            return Scored(scores, None, list(units))
        if len(units) == len(scores) and all(_is_row(unit, 2) for unit in units):
            return Scored(scores, [(int(start), int(end)) for start, end in units])
    if all(isinstance(row, list | tuple) and len(row) == 2 and isinstance(row[0], str) for row in result):
        return Scored([score for _, score in result], None, [token for token, _ in result])
    if all(_is_row(row, 3) for row in result):
        return Scored([score for *_, score in result], [(int(start), int(end)) for start, end, _ in result])
    return Scored(None)


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, str | bool)


def _is_row(row: Any, length: int) -> bool:
    return isinstance(row, list | tuple) and len(row) == length and all(map(_is_number, row))


def locate(example: Example, tokens: Sequence[str]) -> list[Span | None]:
    """The position of each token in the text, from left to right; None for special tokens and the second text."""
    text = _folded(example.text) + "\n" + _folded(example.text_pair or "")
    places: list[Span | None] = []
    unknown: list[int] = []  # tokens that cover the text before the next known token
    cursor = 0
    for token in tokens:
        start, end = _find(text, cursor, token, gap=bool(unknown))
        if start >= 0:
            _share(places, unknown, text, cursor, start)
            places.append((start, end))
            cursor, unknown = end, []
        elif token.startswith(("[", "<")):
            unknown += [len(places)] if token in _UNKNOWN else []
            places.append(None)
        else:
            raise TrothError(
                f"example {example.id}: token {token!r} does not follow in the text at character {cursor} "
                f"({example.text[cursor : cursor + 20]!r}); pass spans= with the character span of every score"
            )
    _share(places, unknown, text, cursor, len(example.text))
    return [None if span is None or span[0] >= len(example.text) else span for span in places]


def _find(text: str, cursor: int, token: str, gap: bool) -> Span:
    """The position of a token after white space or, if a gap is allowed, at the next word start; -1 if not found."""
    before = r".*?(?:(?<!\w)|(?!\w))" if gap else r"\s*"
    for written in dict.fromkeys((token, _MARKS.sub("", token))):
        bare = re.escape(_folded(written).strip())
        match = re.compile(f"{before}({bare})", re.DOTALL).match(text, cursor)
        if match:
            return match.span(1)
    return -1, -1


def _share(places: list[Span | None], unknown: list[int], text: str, start: int, end: int) -> None:
    """Assigns one skipped word to each unknown token, or all skipped text to each if the numbers do not match."""
    words = [word.span() for word in re.compile(r"\S+").finditer(text, start, end)]
    for place, token in enumerate(unknown):
        places[token] = words[place] if len(words) == len(unknown) else (start, end)


def _folded(text: str) -> str:
    """Lower case without accents, character by character, so that positions do not change."""
    return "".join(unicodedata.normalize("NFD", letter)[0].lower()[0] for letter in text)
