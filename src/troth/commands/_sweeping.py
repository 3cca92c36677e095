"""Shared by the commands that run a plan: the estimate of a dry run and the printed results."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from troth.commands import _options
from troth.core import terminal
from troth.core.display import counted
from troth.core.progress import duration as duration
from troth.core.progress import expected as expected_time
from troth.core.progress import run_bar as run_bar
from troth.core.sheet import TableCell
from troth.core.terminal import Console

if TYPE_CHECKING:
    from troth.sweep.estimate import Estimator

_BOARDS = 4  # maximum number printed; a report has all of them


def print_estimate(
    plan: Any, folder: Path, estimator: Estimator, workers: int | None, retry: bool, as_json: bool
) -> None:
    from troth.sweep.machine import cores, gpus

    count = workers or len(gpus()) or cores()
    expected = estimator.estimate(plan, workers=count, retry=retry)
    if as_json:
        _options.print_json(
            {
                "cells": dict(expected.cells), "finished": expected.finished, "failed": expected.failed,
                "to_do": expected.to_do, "passes": expected.passes, "requests": expected.requests,
                "seconds": expected.seconds, "workers": count, "probed": expected.probed,
                **{name: plan.about[name] for name in ("trainings", "fits") if name in plan.about},
            }
        )  # fmt: skip
        return
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in expected.cells.items())
    terminal.echo(f"run folder: {folder}")
    for line in terminal.wrapped(f"{sum(expected.cells.values()):,} cells (pieces of work): {kinds}", 80):
        terminal.echo(line)
    if "trainings" in plan.about:
        terminal.echo(f"{plan.about['trainings']:,} trainings, side by side in {expected.cells['training']:,} cells")
    if "fits" in plan.about:
        fits = plan.about["fits"]
        passes = f"{fits['forward']:,} passes of the explained model and {fits['backward']:,} back through it"
        terminal.echo(f"attribution models: {fits['trainings']:,} trainings (trials included), {passes}")
    terminal.echo(f"{expected.finished:,} finished, {expected.failed:,} failed before, {expected.to_do:,} to do")
    if expected.requests:
        terminal.echo(f"requests: about {expected.requests:,}, less those whose answers are in the cache")
    if expected.passes > expected.requests:
        terminal.echo(f"passes of the model: about {expected.passes - expected.requests:,}")
    if expected.seconds is None:
        took = f"unknown: {expected.problem}" if expected.problem else "unknown"
    else:
        took = f"{expected_time(expected.seconds)} with {counted(count, 'worker')}"
        if expected.probed:
            were = "was" if expected.probed == 1 else "were"
            took += f"; {counted(expected.probed, 'method')} {were} tried on a few examples"
    for line in terminal.wrapped(f"time: {took}", 80):
        terminal.echo(line)


def print_table(console: Console, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Prints a table whose first columns name the rows. Columns that do not fit follow in further blocks."""
    texts = [[TableCell(cell).text for cell in row] for row in rows]
    names = next((count for count in range(1, len(columns)) if _is_naming(texts, count)), 1)
    console.print(Text(title, "bold"))
    widths = [
        max(cell_len(text) for text in [*column.split(), *(row[place] for row in texts)])
        for place, column in enumerate(columns)
    ]
    for block in _blocks(columns, widths, names, console.width):
        table = Table(box=None, padding=(0, 1))
        fits = sum(widths[place] + 2 for place in (*range(names), *block)) <= console.width
        for place in (*range(names), *block):
            side: Literal["left", "right"] = "left" if place < names else "right"
            width = widths[place] if fits else None
            table.add_column(Text(columns[place]), justify=side, overflow="fold", width=width)
        for row in texts:
            table.add_row(*(Text(row[place]) for place in (*range(names), *block)))
        console.print(table)


def _is_naming(rows: Sequence[Sequence[str]], count: int) -> bool:
    """Whether the first `count` cells identify each row."""
    return len({tuple(row[:count]) for row in rows}) == len(rows)


def _blocks(columns: Sequence[str], widths: Sequence[int], names: int, width: int) -> list[list[int]]:
    """Divides the columns into blocks that fit side by side, next to the columns that name the rows.

    A heading that occurs several times ("published") is only clear next to the column before it, so both stay together.
    """
    groups: list[list[int]] = []
    for place in range(names, len(columns)):
        if groups and columns.count(columns[place]) > 1:
            groups[-1].append(place)
        else:
            groups.append([place])
    blocks: list[list[int]] = [[]]
    room = width - sum(each + 2 for each in widths[:names])
    for group in groups:
        if blocks[-1] and sum(widths[place] + 2 for place in (*blocks[-1], *group)) > room:
            blocks.append([])
        blocks[-1] += group
    return blocks


def print_boards(store: Any, plan: Any) -> None:
    """Prints the leaderboards of a run, the answer below each, and the next command."""
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
