"""An attribution without color: the text, and under each unit that counts a sign. For pipes, files and NO_COLOR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from troth.core.terminal import Console, visible
from troth.report.explanation import FAINT, layout, strengths

if TYPE_CHECKING:
    from troth.core.types import Attribution


def signed_lines(attribution: Attribution, console: Console, width: int) -> Iterator[Text]:
    """The text in lines of at most `width`; a line that has signs is followed by them."""
    strength = strengths(attribution)
    shown = Text()
    for raw, unit, role in layout(attribution):
        piece = "  |  " if role == "bar" else visible(raw)
        sign = "" if unit is None or abs(strength[unit]) < FAINT else _sign(float(strength[unit]), attribution.signed)
        start = len(shown.plain)
        shown.append(piece)
        if sign:
            shown.stylize(_STYLES[sign], start)
    for line in shown.wrap(console, max(width, 1)):
        signs = [" "] * len(line.plain)
        for span in line.spans:
            for place in range(max(0, span.start), min(span.end, len(signs))):
                signs[place] = _SIGNS[str(span.style)] if not line.plain[place].isspace() else " "
        yield line
        under = "".join(sign * cell_len(letter) for sign, letter in zip(signs, line.plain, strict=True)).rstrip()
        if under:
            yield Text(under)


def _sign(strength: float, signed: bool) -> str:
    return "^" if not signed else "+" if strength > 0 else "-"


# Styles that a terminal without color still shows, each standing for one sign.
_STYLES = {"+": "underline bold", "-": "underline", "^": "underline italic"}
_SIGNS = {style: sign for sign, style in _STYLES.items()}
