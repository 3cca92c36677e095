"""What commands that carry out a plan share: the bar with the time left, the estimate of a dry run, the result."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from troth.commands import _options
from troth.core import terminal
from troth.core.progress import duration as duration
from troth.core.progress import run_bar as run_bar
from troth.core.sheet import TableCell
from troth.core.terminal import Console

_BOARDS = 4  # that are printed; a report has them all


def print_estimate(plan: Any, store: Any, workers: int | None, context: Any, retry: bool, as_json: bool) -> None:
    from troth.sweep.estimate import estimate
    from troth.sweep.machine import cores, gpus

    count = workers or len(gpus()) or cores()
    expected = estimate(plan, store, workers=count, context=context, retry=retry)
    if as_json:
        _options.print_json(
            {
                "cells": dict(expected.cells), "finished": expected.finished, "failed": expected.failed,
                "to_do": expected.to_do, "seconds": expected.seconds, "workers": count, "probed": expected.probed,
                **{name: plan.about[name] for name in ("trainings", "fits") if name in plan.about},
            }
        )  # fmt: skip
        return
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in expected.cells.items())
    terminal.echo(f"{sum(expected.cells.values()):,} cells ({kinds}), which are pieces of work, into {store.folder}")
    if "trainings" in plan.about:
        terminal.echo(f"{plan.about['trainings']:,} trainings, side by side in {expected.cells['training']:,} cells")
    if "fits" in plan.about:
        fits = plan.about["fits"]
        passes = f"{fits['forward']:,} passes of the explained model and {fits['backward']:,} back through it"
        terminal.echo(f"attribution models: {fits['trainings']:,} trainings (trials included), {passes}")
    terminal.echo(f"{expected.finished:,} finished, {expected.failed:,} failed before, {expected.to_do:,} to do")
    took = "unknown" if expected.seconds is None else f"about {duration(expected.seconds)} with {count} workers"
    how = f"; {expected.probed} methods were tried on a few examples" if expected.probed else ""
    terminal.echo(f"time: {took}{how}")


def print_table(console: Console, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table of a study: the first column names the rows, the others are numbers."""
    table = Table(title=Text(title, "bold"), title_justify="left", box=None, padding=(0, 1))
    for place, column in enumerate(columns):
        table.add_column(Text(column), justify="right" if place else "left")
    for row in rows:
        table.add_row(*(Text(TableCell(cell).text) for cell in row))
    console.print(table)


def print_boards(store: Any, plan: Any) -> None:
    """The leaderboards of a run, the answer below each, and what to do next."""
    from troth.report import screen
    from troth.report.across import across
    from troth.report.board import leaderboards

    console = Console()
    plain = not console.is_terminal or console.no_color or console.color_system is None
    boards = [board for board in leaderboards(store, plan) if board.explainers]
    if len(boards) > 1:
        sheet = across(boards)
        print_table(console, sheet.title, [column.head for column in sheet.columns],
                    [[cell.value for cell in row] for row in sheet.rows])  # fmt: skip
        console.print(sheet.notes[0], style="dim")
        console.print()
    for board in boards[:_BOARDS]:
        console.print(screen.table(board, board.explainers, console.width, marks=plain))
        console.print()
        for text in screen.closing(board, console.width):
            console.print(text)
        console.print()
    if len(boards) > _BOARDS:
        console.print(f"and {len(boards) - _BOARDS} more tables in the report", style="dim")
    console.print(f"next: troth report {shlex.quote(str(store.folder))}", markup=False, style="bold", soft_wrap=True)
