"""A leaderboard in the terminal: explainers as rows and metrics as columns if at least two metrics fit side by side,
else one block per metric; then the verdict in a few lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

from troth.core.numbers import p_value
from troth.core.sheet import NOTHING, Column, TableCell
from troth.core.terminal import visible, wrapped
from troth.report.answer import cautions, failed, findings, methods, pairs
from troth.report.board import Leaderboard
from troth.report.board_sheet import sheet
from troth.report.wording import folded, options_note, short_names
from troth.validity.checking import LEVEL

if TYPE_CHECKING:
    from troth.validity.stamp import Stamp

_GAP = 2
_FIRST = "explainer"
_CHECK = "validity"  # label of the row that tests whether erased inputs are in distribution
_VERDICT, _CAUTIONS = 5, 3  # maximum number of lines
_SLACK = 4  # columns by which a heading may widen its cells
_OWN = 2  # number of the user's methods
_SPACE = r"(?<= )(?<!by )(?![↑↓])"  # a heading is broken before "by mask_token ↑", but not within it
_BREAK = rf"{_SPACE}|(?<=_)"


class _Column(NamedTuple):
    """A metric or a cost: one text per explainer, and for a metric whether its erased inputs are in distribution."""

    head: str
    texts: Sequence[Text]
    check: str | None = None  # None if nothing had to be checked

    @property
    def width(self) -> int:
        """The width of the cells or, if larger, of the longest part of the heading; names that are only a little wider
        than the cells are not broken.
        """
        cells = max(map(cell_len, [*(text.plain for text in self.texts), self.check or ""]))
        longest = max(map(cell_len, re.split(_SPACE, self.head)))
        if longest <= cells + _SLACK:
            return max(cells, longest)
        return max([cells, *map(cell_len, re.split(_BREAK, self.head))])

    @property
    def heading(self) -> list[str]:
        """The heading in lines no wider than the cells; names are broken only if they are too long."""
        words = re.split(_SPACE, self.head)
        lines = [""]
        for part in words if max(map(cell_len, words)) <= self.width else re.split(_BREAK, self.head):
            if cell_len((lines[-1] + part).rstrip()) > self.width:
                lines.append("")
            lines[-1] += part
        return [line.rstrip() for line in lines]


def table(board: Leaderboard, order: Sequence[str] | None = None, width: int = 80, *, marks: bool = False) -> Group:
    """All values, with a legend. `marks` replace bold and dim in terminals that show neither."""
    shown = sheet(board, order)
    names = [visible(row[0].text) for row in shown.rows]
    metrics = [
        _metric(column, [row[place] for row in shown.rows], board.stamps.get(metric), marks)
        for place, (column, metric) in enumerate(zip(shown.columns[1:], board.metrics, strict=False), start=1)
    ]
    first = 1 + len(metrics)
    costs = [
        _Column(column.head, [Text(row[place].text) for row in shown.rows])
        for place, column in enumerate(shown.columns[first:], start=first)
    ]
    widest = max((metric.width for metric in metrics), default=0)
    side = min(max(map(cell_len, [*names, _FIRST])), width - _GAP - widest)  # longer names are wrapped
    two = sum(sorted((_GAP + metric.width for metric in metrics), reverse=True)[:2])
    parts = (_panels if side + two <= width else _blocks)(names, metrics, costs, width, side)
    gap = [Text()] if isinstance(parts[0], Table) else []
    return Group(Text(visible(board.title), "bold"), *gap, *parts, *_legend(board, shown.rows, marks, width))


def _metric(column: Column, cells: Sequence[TableCell], stamp: Stamp | None, marks: bool) -> _Column:
    """A column of texts of equal width, with values, intervals and letters aligned."""
    values = _rights([cell.text for cell in cells])
    signs = _lefts([("*" if cell.best else "") + ("~" if cell.weak else "") if marks else "" for cell in cells])
    intervals = _rights([cell.interval for cell in cells])
    letters = _lefts([cell.letters for cell in cells])
    texts = []
    for cell, value, sign, interval, letter in zip(cells, values, signs, intervals, letters, strict=True):
        text = Text.assemble((value + sign, "bold" if cell.best else ""), (f" {interval}" if interval else "", "dim"),
                             f" {letter}" if letter else "")  # fmt: skip
        if cell.weak:
            text.stylize("dim")
        texts.append(text)
    return _Column(visible(column.head), texts, None if stamp is None else _checked(stamp))


def _checked(stamp: Stamp) -> str:
    out = " (out)" if stamp.verdict == "out of distribution" else ""
    return "not tested" if stamp.p is None else f"{p_value(stamp.p)}{out}"


def _rights(texts: Sequence[str]) -> list[str]:
    return [text.rjust(max(map(len, texts))) for text in texts]


def _lefts(texts: Sequence[str]) -> list[str]:
    return [text.ljust(max(map(len, texts))) for text in texts]


def _panels(
    names: Sequence[str], metrics: Sequence[_Column], costs: Sequence[_Column], width: int, side: int
) -> list[Table | Text]:
    """As many metrics side by side as fit, the rest below; the costs next to the last one if they fit."""
    panels: list[list[_Column]] = []
    for metric in metrics:
        if not panels or side + sum(_GAP + other.width for other in [*panels[-1], metric]) > width:
            panels.append([])
        panels[-1].append(metric)
    used = side + sum(_GAP + column.width for column in [*(panels[-1] if panels else ()), *costs])
    beside = costs if panels and used <= width else ()
    parts: list[Table | Text] = []
    for number, panel in enumerate(panels):
        parts += [_panel(names, panel, beside if number == len(panels) - 1 else (), side), Text()]
    return parts[:-1] if beside else [*parts, _panel(names, (), costs, side)]


def _panel(names: Sequence[str], metrics: Sequence[_Column], costs: Sequence[_Column], side: int) -> Table:
    shown = Table(box=None, padding=(0, 0, 0, _GAP), pad_edge=False, show_edge=False)
    shown.add_column(_FIRST, style="cyan", width=max(1, side), overflow="fold")
    most = max((len(metric.heading) for metric in metrics), default=1)
    for metric in metrics:
        lines = [""] * (most - len(metric.heading)) + metric.heading
        shown.add_column(Text("\n".join(line.rjust(metric.width) for line in lines)), no_wrap=True)
    for cost in costs:
        shown.add_column(cost.head, justify="right", style="dim", no_wrap=True)
    for place, name in enumerate(names):
        # Spaces are added on the left by hand, because rich would crop those at the end of a text.
        texts = (
            Text(" " * (metric.width - cell_len(metric.texts[place].plain))) + metric.texts[place] for metric in metrics
        )
        shown.add_row(Text(name), *texts, *(cost.texts[place] for cost in costs))
    if any(metric.check is not None for metric in metrics):
        checks = ((metric.check or "").rjust(metric.width) for metric in metrics)
        shown.add_row(Text(_CHECK, "dim"), *(Text(check, "dim") for check in checks))
    return shown


def _blocks(
    names: Sequence[str], metrics: Sequence[_Column], costs: Sequence[_Column], width: int, side: int
) -> list[Table | Text]:
    """One metric below the other, then the cost; rich wraps text that is wider than the terminal."""
    parts: list[Table | Text] = []
    for metric in metrics:
        check = "" if metric.check is None else f"  {_CHECK}: {metric.check}"
        parts.append(Text.assemble("\n", (metric.head, "bold"), (check, "dim")))
        parts.append(_block([[Text(name), metric.texts[place]] for place, name in enumerate(names)]))
    parts.append(Text(f"\ncost per example: {', '.join(cost.head for cost in costs)}", "bold"))
    parts.append(_block([[Text(name), *(cost.texts[place] for cost in costs)] for place, name in enumerate(names)]))
    return parts


def _block(rows: Sequence[Sequence[Text]]) -> Table:
    shown = Table(box=None, padding=(0, 0, 0, _GAP), show_header=False, show_edge=False)
    shown.add_column(style="cyan", overflow="fold")
    for _ in rows[0][1:] if rows else ():
        shown.add_column(justify="left" if len(rows[0]) == 2 else "right", no_wrap=True)
    for row in rows:
        shown.add_row(*row)
    return shown


def _legend(board: Leaderboard, rows: Sequence[Sequence[TableCell]], marks: bool, width: int) -> list[Text]:
    """Explains the signs that are used, and the options that the headings leave out."""
    cells = [cell for row in rows for cell in row]
    signs = [
        ("*" if marks else "bold", "best of its column", any(cell.best for cell in cells)),
        ("~" if marks else "dim", "not shown to beat random", any(cell.weak for cell in cells)),
        ("[low, high]", "95 % interval", any(cell.interval for cell in cells)),
        ("a shared letter", "no significant difference", any(cell.letters for cell in cells)),
        ("↑ ↓", "the better side", any(way is not None for way in board.directions.values())),
        (NOTHING, "undefined or not measured", any(not cell.defined for cell in cells)),
        ("ms, passes", "time and passes of the model per example", True),
    ]
    legend = "; ".join(f"{sign}: {meaning}" for sign, meaning, there in signs if there)
    tested = f"{_CHECK}: are erased inputs in distribution? MaSF's p-value; below {LEVEL}: no"
    whys = dict.fromkeys(stamp.why for stamp in board.stamps.values() if stamp.why)
    if whys and all(stamp.p is None for stamp in board.stamps.values()):
        tested = f"{_CHECK}: are erased inputs in distribution? Not tested: {'; '.join(whys)}"
    lines = [legend, *([tested] if board.stamps else ()), *options_note(board.metrics)]
    return [Text(), *(Text(part, "dim") for line in lines for part in wrapped(line, width))]


def closing(board: Leaderboard, width: int = 80) -> list[Text]:
    """The verdict in at most five lines, how the user's own methods compare, up to three cautions, and failures in
    full.
    """
    verdict: list[str] = []
    for sentence in board.verdict.sentences if board.verdict is not None else ():
        if len(verdict) + len(lines := wrapped(sentence, width)) <= _VERDICT:
            verdict += lines
    beware = [f"Beware: {caution.brief}." for caution in cautions(board)]
    if board.skipped:
        beware.append(f"Beware: {len(board.skipped)} methods or metrics were skipped; --verbose lists them.")
    return [
        *(Text(line, "" if place else "bold") for place, line in enumerate(verdict)),
        *(Text(part) for line in pairs(board, most=1)[:_OWN] for part in wrapped(line, width)),
        *(Text(part, "yellow") for line in [*beware[:_CAUTIONS], *failed(board)] for part in wrapped(line, width)),
    ]


def in_full(board: Leaderboard, width: int = 80) -> list[Text]:
    """All findings on a leaderboard: the verdict, cautions, reasons for skipped tests and methods, and how it was
    measured.
    """
    names = short_names(board.metrics)
    untested = {names[metric]: stamp.why for metric, stamp in board.stamps.items() if stamp.p is None and stamp.why}
    lines = [
        *findings(board),
        *(f"Not tested: {line}." for line in folded(untested)),
        *(f"Skipped: {line}." for line in folded(board.skipped)),
        methods(board),
    ]
    return [
        Text(("• " if first else "  ") + part)
        for line in lines
        for first, part in zip([True, *[False] * len(line)], wrapped(line, width - 2), strict=False)
    ]
