"""Interactions of units in words, and as arcs between the words that interact."""

from __future__ import annotations

import html as markup
from collections.abc import Iterator

from rich.cells import cell_len

from troth.core import numbers
from troth.core.display import short
from troth.core.interactions import Interactions

SHOWN = 8  # number of pairs
_LETTER, _GAP, _LINE = 8, 16, 26  # pixels: width of a letter, space between words, height of the words
# Colors of explanations, and a dash pattern as a second sign.
_COLORS = {True: ("#2563eb", ""), False: ("#d97706", ' stroke-dasharray="5 4"')}


def lines(found: Interactions) -> Iterator[str]:
    """The strongest pairs, the meaning of their signs, and how well they predict maskings."""
    if found.pairs or found.question.n_units > 1:
        yield f"pairs: {summary(found, SHOWN)}"
    if found.sentence:
        yield found.sentence


def summary(found: Interactions, most: int) -> str:
    """The strongest pairs on one line; above 0, two units do more together than the sum of their single effects."""
    listed = found.strongest(most)
    if not listed:
        return "none acts together beyond chance" if not found.exact else "none acts together"
    values = numbers.scores([value for (_, _, value), _ in listed], signed=True)
    shown = ", ".join(
        f"{_word(found, first)} & {_word(found, second)} {value}{f' ± {1.96 * error:.1g}' if error else ''}"
        for ((first, second, _), error), value in zip(listed, values, strict=True)
    )
    return f"{shown} (+ more together than apart, − less)"


def arcs(found: Interactions) -> str:
    """The units of the strongest pairs in a row, with an arc per pair, as SVG in the page's text color."""
    listed = found.strongest(SHOWN)
    if not listed:
        return ""
    units = sorted({unit for (first, second, _), _ in listed for unit in (first, second)})
    middle, x, before = {}, _GAP, -1
    words = []
    for unit in units:
        if unit > before + 1:
            words.append(_text(x, "…", "…", faint=True))
            x += _LETTER + _GAP
        label = short(found.units[unit], 24)
        middle[unit] = x + _LETTER * cell_len(label) / 2
        words.append(_text(x, label, found.units[unit]))
        x, before = x + _LETTER * cell_len(label) + _GAP, unit
    largest = max(abs(value) for (*_, value), _ in listed)
    heights = [24 + abs(middle[second] - middle[first]) / 4 for (first, second, _), _ in listed]
    base = max(heights) * 0.75 + 12
    paths = []
    for ((first, second, value), error), height in zip(listed, heights, strict=True):
        start, end, top = middle[first], middle[second], base - height
        color, dashes = _COLORS[value > 0]
        interval = f" ± {1.96 * error:.2g}" if error else ""
        about = markup.escape(f"{found.units[first]} & {found.units[second]}: {value:+.4g}{interval}")
        paths.append(
            f'<path d="M{start:.0f} {base:.0f}C{start:.0f} {top:.0f} {end:.0f} {top:.0f} {end:.0f} {base:.0f}" '
            f'fill="none" stroke="{color}" stroke-width="{1 + 4 * abs(value) / largest:.1f}" '
            f'stroke-linecap="round"{dashes}><title>{about}</title></path>'
        )
    label = markup.escape(f"pairs of units: {summary(found, SHOWN)}", quote=True)
    moved = f'<g transform="translate(0,{base + _LINE - 8:.0f})">{"".join(words)}</g>'
    return (
        f'<div style="overflow-x:auto"><svg class="pairs" role="img" aria-label="{label}" width="{x}" '
        f'height="{base + _LINE:.0f}" font-family="ui-monospace,monospace" font-size="13" fill="currentColor" '
        f'style="color:inherit">{"".join(paths)}{moved}</svg></div>'
    )


def _text(x: int, label: str, whole: str, *, faint: bool = False) -> str:
    width = f' textLength="{_LETTER * cell_len(label)}" lengthAdjust="spacingAndGlyphs"'
    light = ' opacity="0.5"' if faint else ""
    return f'<text x="{x}"{width}{light}>{markup.escape(label)}<title>{markup.escape(whole)}</title></text>'


def _word(found: Interactions, unit: int) -> str:
    word = short(found.units[unit], 24)
    return word if any(letter.isalnum() for letter in word) else f"'{word}'"  # as among the strongest units
