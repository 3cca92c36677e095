"""A matrix of scores: as an HTML table, and in the terminal as colored numbers, split into blocks that fit its
width.
"""

from __future__ import annotations

import html as markup
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from troth.core.terminal import visible
from troth.report import explanation
from troth.report.explanation import FAINT, ground, strengths, style
from troth.report.layout import layout, number_of

if TYPE_CHECKING:
    from troth.core.results import Matrix

_WIDEST = 14  # terminal cells for a name
_LONGEST = 24  # characters of a heading
_MANY = 12  # with more columns, the table may not fit on a page


def heading(matrix: Matrix) -> str:
    """Names the rows and columns of the matrix."""
    of = "each token that was written" if matrix.attributions[0].question.encoding.written else "each target"
    kind = matrix.attributions[0].question.encoding.unit_kind
    return f"{explanation.method_of(matrix.attributions[0])}: how much each {kind} (across) pushes toward {of} (down)"


def html(matrix: Matrix) -> str:
    """One self-contained, escaped HTML fragment."""
    strength, shape = strengths(matrix), _shape(matrix)
    cell = "padding:.15em .35em;font-size:.85em;text-align:right;white-space:nowrap"
    name = f"{cell};text-align:left;font-weight:600"
    # A whole passage as a heading would make its column too wide.
    long = f"{cell};white-space:normal;overflow-wrap:anywhere;min-width:6em;max-width:8em;line-height:1.2"
    styles = [cell if len(unit) <= _LONGEST else long for unit in matrix.units]
    head = "".join(
        f'<th style="{own}" title="{markup.escape(unit)}">{markup.escape(short)}</th>'
        for own, unit, short in zip(styles, matrix.units, _heads(matrix), strict=True)
    )
    is_wide = len(matrix.units) > _MANY or long in styles
    hint = f"<br>The table has {len(matrix.units)} columns; scroll it sideways if it is cut off." if is_wide else ""
    rows = []
    for target, value, scores, shares in zip(matrix.targets, matrix.values, matrix.scores, strength, strict=True):
        cells = "".join(
            f'<td title="{score:+.4g}" style="{cell};{ground(each)}">{_number(score, shape)}</td>'
            for score, each in zip(scores, shares, strict=True)
        )
        shown = f'<td style="{name}">{markup.escape(_name(target))}</td><td style="{cell};opacity:.7">{value:.2f}</td>'
        rows.append(f"<tr>{shown}{cells}</tr>")
    said = f'<th style="{cell};opacity:.7">{_said(matrix)}</th>'
    return (
        f'<div style="line-height:1.5"><small>{markup.escape(heading(matrix))}{hint}</small>'
        '<div style="overflow-x:auto"><table style="border-collapse:collapse">'
        f'<tr><th style="{name}"></th>{said}{head}</tr>'
        f"{''.join(rows)}</table></div></div>"
    )


def sections(by_text: Sequence[Sequence[Matrix]]) -> Iterator[str]:
    """Sections of a page: every text with the matrix of each method, then a legend."""
    for matrices in by_text:
        text = markup.escape("".join(text for text, _, _ in layout(matrices[0].attributions[0])))
        yield "".join([f'<div style="white-space:pre-wrap">{text}</div>', *map(html, matrices)])
    every = [attribution for matrices in by_text for matrix in matrices for attribution in matrix.attributions]
    yield explanation.legend_html(every)


def lines(matrix: Matrix, width: int) -> Iterator[Text]:
    """The matrix as lines of at most `width` cells; units that do not fit follow in further blocks."""
    strength, shape = strengths(matrix), _shape(matrix)
    names = [visible(_name(target)) for target in matrix.targets]
    first = min(_WIDEST, max(map(cell_len, names)))
    values = [f"{value:.2f}" for value in matrix.values]
    second = max(len(_said(matrix)), *map(len, values))
    numbers = [[_number(score, shape) for score in row] for row in matrix.scores]
    units = list(map(visible, _heads(matrix)))
    widths = [
        max(*(len(row[unit]) for row in numbers), min(_WIDEST, cell_len(units[unit]))) for unit in range(len(units))
    ]
    start = 0
    while start < len(units):
        end, used = start, first + second + 3
        while end < len(units) and (end == start or used + widths[end] + 1 <= width):
            used, end = used + widths[end] + 1, end + 1
        head = Text(f"{'':{first}} {_said(matrix):>{second}} ", style="dim")
        for unit in range(start, end):
            head.append(f" {_fit(units[unit], widths[unit])}")
        yield head
        for row, target in enumerate(names):
            line = Text(f"{_fit(target, first)} ")
            line.append(f"{values[row]:>{second}} ", style="dim")
            for unit in range(start, end):
                line.append(" ")
                line.append(f"{numbers[row][unit]:>{widths[unit]}}", style=style(float(strength[row, unit])))
            yield line
        start = end
        if start < len(units):
            yield Text("")


def _heads(matrix: Matrix) -> list[str]:
    """The heading of each column: the unit on one line, with a number for passages."""
    of = matrix.attributions[0]
    names = [number_of(of, place) + " ".join(unit.split()) for place, unit in enumerate(matrix.units)]
    return [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…" for name in names]


def _shape(matrix: Matrix) -> str:
    largest = np.abs(np.nan_to_num(matrix.scores)).max(initial=0.0)
    kind = ".2f" if FAINT / 4 <= largest < 1000 or largest == 0 else ".1e"
    return f"+{kind}" if matrix.attributions[0].signed else kind


def _number(score: float, shape: str) -> str:
    if np.isnan(score):
        return "?"
    shown = format(float(score), shape)
    return shown if float(shown) else shown.lstrip("+-")  # zero has no sign


def _name(target: str) -> str:
    """A token that is only white space is shown as an escape sequence."""
    return target.strip() or repr(target)[1:-1] or "…"


def _said(matrix: Matrix) -> str:
    return {"classes": "probability", "labels": "probability"}.get(matrix.attributions[0].outputs, "log p")


def _fit(text: str, width: int) -> str:
    return set_cell_size(text, width) if cell_len(text) <= width else f"{set_cell_size(text, width - 1)}…"
