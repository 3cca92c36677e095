"""A leaderboard on a terminal: names as headings where there is room, else one block per metric."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

from troth.core.sheet import NOTHING, Column, TableCell
from troth.core.terminal import visible
from troth.report.board import Leaderboard
from troth.report.board_sheet import folded, options_note, sheet, short_names

if TYPE_CHECKING:
    from troth.validity.stamp import Stamp

_WIDE = 100  # terminal columns from which metrics stand side by side
_GAP = 2
_CHECK = "erased inputs"  # are they in distribution?


class _Column(NamedTuple):
    """A metric or a cost: a text per explainer, and whether the erased inputs of a metric are in distribution."""

    head: str
    texts: Sequence[Text]
    check: Sequence[str] | None = None  # in short lines; None where nothing was to be checked

    @property
    def width(self) -> int:
        return max(map(cell_len, [self.head, *(text.plain for text in self.texts), *(self.check or ())]))


def table(board: Leaderboard, order: Sequence[str] | None = None, width: int = 80, *, marks: bool = False) -> Group:
    """All numbers, with a legend. `marks` stand for bold and dim where a terminal shows neither."""
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
    side = min(max(map(cell_len, [*names, _CHECK])), width - _GAP - widest)  # a longer name is folded
    parts = _panels(names, metrics, costs, width, side) if width >= _WIDE else _blocks(names, metrics, costs)
    return Group(Text(visible(board.title), "bold"), *parts, *_legend(board, shown.rows, marks))


def _metric(column: Column, cells: Sequence[TableCell], stamp: Stamp | None, marks: bool) -> _Column:
    """A column of cells as texts of one width: values, intervals and letters each below the others."""
    values = _rights([cell.text for cell in cells])
    signs = _lefts([("*" if cell.best else "") + ("~" if cell.weak else "") if marks else "" for cell in cells])
    intervals = _rights([re.sub(r"(?<!\d)0\.", ".", cell.interval) for cell in cells])  # [.21, .40]
    letters = _lefts([cell.letters for cell in cells])
    texts = []
    for cell, value, sign, interval, letter in zip(cells, values, signs, intervals, letters, strict=True):
        text = Text.assemble((value + sign, "bold" if cell.best else ""), (f" {interval}" if interval else "", "dim"),
                             f" {letter}" if letter else "")  # fmt: skip
        if cell.weak:
            text.stylize("dim")
        texts.append(text)
    check = None
    if stamp is not None:
        check = ["not tested"] if stamp.p is None else [stamp.verdict, f"p = {stamp.p:.2g}"]
    return _Column(visible(column.head), texts, check)


def _rights(texts: Sequence[str]) -> list[str]:
    return [text.rjust(max(map(len, texts))) for text in texts]


def _lefts(texts: Sequence[str]) -> list[str]:
    return [text.ljust(max(map(len, texts))) for text in texts]


def _panels(
    names: Sequence[str], metrics: Sequence[_Column], costs: Sequence[_Column], width: int, side: int
) -> list[Table | Text]:
    """As many metrics side by side as fit, the rest below; of the cost as much as fits beside the last."""
    panels: list[list[_Column]] = []
    for metric in metrics:
        if not panels or side + sum(_GAP + other.width for other in [*panels[-1], metric]) > width:
            panels.append([])
        panels[-1].append(metric)
    left = width - side - sum(_GAP + metric.width for metric in panels[-1]) if panels else 0
    beside: list[_Column] = []
    for cost in costs:
        if sum(_GAP + other.width for other in [*beside, cost]) <= left:
            beside.append(cost)
    parts: list[Table | Text] = []
    for number, panel in enumerate(panels):
        parts += [_panel(names, panel, beside if number == len(panels) - 1 else (), side), Text()]
    return parts[:-1] if beside else [*parts, _panel(names, (), costs, side)]


def _panel(names: Sequence[str], metrics: Sequence[_Column], costs: Sequence[_Column], side: int) -> Table:
    shown = Table(box=None, padding=(0, 0, 0, _GAP), pad_edge=False, show_edge=False)
    shown.add_column("explainer", style="cyan", width=max(1, side), overflow="fold")
    for metric in metrics:
        shown.add_column(Text(metric.head.rjust(metric.width)), no_wrap=True)
    for cost in costs:
        shown.add_column(cost.head, justify="right", style="dim", no_wrap=True)
    for place, name in enumerate(names):
        # Blanks to the left by hand: rich would cut those at the end of a text.
        texts = (
            Text(" " * (metric.width - cell_len(metric.texts[place].plain))) + metric.texts[place] for metric in metrics
        )
        shown.add_row(Text(name), *texts, *(cost.texts[place] for cost in costs))
    if any(metric.check is not None for metric in metrics):
        checks = ("\n".join(line.rjust(metric.width) for line in metric.check or [""]) for metric in metrics)
        shown.add_row(Text(_CHECK, "dim"), *(Text(check, "dim") for check in checks))
    return shown


def _blocks(names: Sequence[str], metrics: Sequence[_Column], costs: Sequence[_Column]) -> list[Text | Table]:
    """One metric below the other, then the cost."""
    parts: list[Text | Table] = []
    for metric in metrics:
        check = "" if metric.check is None else f"  {_CHECK}: {', '.join(metric.check)}"
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


def _legend(board: Leaderboard, rows: Sequence[Sequence[TableCell]], marks: bool) -> list[Text]:
    """What the signs mean, as far as they are there, and what the table left out."""
    cells = [cell for row in rows for cell in row]
    signs = [
        ("*" if marks else "bold", "best of its column", any(cell.best for cell in cells)),
        ("~" if marks else "dim", "not significantly better than random", any(cell.weak for cell in cells)),
        ("[low, high]", "95 % interval", any(cell.interval for cell in cells)),
        ("a shared letter", "no significant difference", any(cell.letters for cell in cells)),
        ("↑ ↓", "the better side", any(way is not None for way in board.directions.values())),
        (NOTHING, "undefined or not measured", any(not cell.defined for cell in cells)),
    ]
    lines = ["; ".join(f"{sign}: {meaning}" for sign, meaning, there in signs if there)]
    if board.stamps:
        lines.append(f"{_CHECK}: are texts with erased units in distribution for the model (MaSF's test)?")
    names = short_names(board.metrics)
    untested = {names[metric]: stamp.why for metric, stamp in board.stamps.items() if stamp.p is None and stamp.why}
    lines += [f"not tested: {line}" for line in folded(untested)]
    lines += options_note(board.metrics)
    return [Text(), *(Text(visible(line), "dim") for line in lines if line)]
