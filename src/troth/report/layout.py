"""The order in which the parts of an explained text are shown: the prompt, the text split into units, its pair, the
continuation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from troth.core.types import Attribution


def pieces(attribution: Attribution, segment: int = 0) -> Iterator[tuple[str, int | None]]:
    """Splits the text of one segment into (text, unit), with None for text between units."""
    encoding = attribution.question.encoding
    texts = {0: encoding.example.text, 1: encoding.example.text_pair or ""}
    text = texts[segment] if segment in texts else dict(encoding.around)[segment]
    cursor = 0
    for unit, (start, end) in enumerate(encoding.unit_spans):
        if encoding.unit_segments[unit] != segment or end <= cursor:
            continue
        if start > cursor:
            yield text[cursor:start], None
        yield text[max(start, cursor) : end], unit
        cursor = end
    if cursor < len(text):
        yield text[cursor:], None


def layout(attribution: Attribution, *, prompt: bool = True) -> Iterator[tuple[str, int | None, str]]:
    """Everything that is shown, split into (text, unit, role): "text", a "prompt" around it, or the "bar" within a
    pair.

    If there are several passages, each begins with its "number". A continuation is "written", and the part of it that
    is explained (all of it or one token) is "explained".
    """
    example, around = attribution.example, attribution.question.encoding.around
    bar: tuple[int | None, str] = (None, "")
    plain = ((0, ""), bar, (1, "")) if example.text_pair is not None else ((0, ""),)
    for segment, words in around or plain:
        if segment is None:
            if prompt or not around:
                yield words, None, "prompt" if around else "bar"
            continue
        for text, unit in pieces(attribution, segment):
            if unit is not None and (name := number_of(attribution, unit)):
                yield name, None, "number"
            yield text, unit, "text"
    written = attribution.question.encoding.written
    if written and around and not prompt:
        yield "\n", None, "text"  # in place of the end of the prompt
    earlier = "".join(token for _, token in written[:-1])
    # Earlier tokens that are units have already been shown.
    shown = len(written) - 1 if earlier and around[-1:] and around[-1] == (around[-1][0], earlier) else 0
    for number, (_, token) in enumerate(written[shown:], start=1 + shown):
        yield token, None, "explained" if attribution.target in (0, number) else "written"


def number_of(attribution: Attribution, unit: int) -> str:
    """The number of a passage if there are several, such as "[1] "; empty for any other unit."""
    question = attribution.question
    return f"[{unit + 1}] " if question.encoding.unit_kind == "passage" and question.n_units > 1 else ""


def shared_prompt(attributions: Sequence[Attribution]) -> str:
    """The prompt around the text that several methods explain, to be shown once; empty if each shows its own."""
    around = attributions[0].question.encoding.around
    texts = [segment for segment, _ in around if segment is not None]
    if len(attributions) < 2 or len(texts) != 1 or len(around) == 1:
        return ""
    return "".join("{text}" if segment is not None else words for segment, words in around)
