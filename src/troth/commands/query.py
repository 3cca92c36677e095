"""SQL queries on the stored results of a run."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from troth.commands import _options
from troth.core import reading, terminal
from troth.core.errors import TrothError
from troth.core.sheet import NOTHING, without_nan
from troth.core.terminal import Console, visible

if TYPE_CHECKING:
    from troth.store.store import Store

_LONGEST = 86_400  # maximum seconds
_LEAST, _MOST = 64 << 20, 1 << 40  # limits of the memory, in bytes
_GAP = 2  # spaces between columns
_WIDEST = 20_000  # maximum characters of a value
_WIDE = 20  # wider text columns may be wrapped to this width
_AVERAGES = re.compile(r"\b(avg|mean|median|sum)\s*\(", re.IGNORECASE)


def query(
    run: _options.Run,
    sql: Annotated[str, "One SELECT over leaderboard, scores, explanations, examples, checks or cells."],
    limit: Annotated[int, "Rows shown; 0 shows all."] = 50,
    as_csv: Annotated[bool, typer.Option("--csv", help="All rows as csv, unrounded.")] = False,
    as_json: _options.Json = False,
    seconds: Annotated[float, "Stop the query after this many seconds."] = 60.0,
    memory: Annotated[str, "Maximum memory of the query, such as 1GB."] = "1GB",
) -> None:
    """Runs a read-only SQL query on a run. The views: leaderboard (the numbers that bench prints), scores (a row per
    example and seed), explanations, examples, checks, cells. Try: describe leaderboard

    Example: troth query runs/reviews "select explainer, metric, value, low, high from leaderboard order by 2, 3"
    """
    from troth.report.board import leaderboards
    from troth.report.board_sheet import LEADERBOARD, as_table
    from troth.report.export import csv_text
    from troth.store.query import View, plain_rows
    from troth.store.query import query as ask
    from troth.store.sql_process import QueryLimits
    from troth.store.store import open_run

    _options.require("--limit", limit, limit >= 0, "0 or more")
    _options.require("--seconds", seconds, 0 < seconds <= _LONGEST, f"above 0, and at most {_LONGEST:,}")
    limits = QueryLimits(seconds, reading.bytes_of(memory, "--memory"))
    _options.require("--memory", memory, _LEAST <= limits.memory <= _MOST, "64MB to 1024GB")
    if as_csv and as_json:
        raise TrothError("--csv and --json cannot be combined; choose one")
    store = open_run(run, sound=True)
    views = {"leaderboard": View(LEADERBOARD, lambda: as_table(leaderboards(store)))}
    # One more row than shown reveals that there are more.
    rows = 0 if as_csv or as_json or not limit else min(limit + 1, 1 << 62)
    answer = ask(store, sql, views, rows=rows, limits=limits)
    for path, why in store.unreadable.items():
        terminal.echo(f"{path} is damaged ({why}) and left out; run the sweep again to fix it", err=True)
    names = answer.column_names
    if as_json:
        _options.print_json([dict(zip(names, map(_plain, row), strict=True)) for row in plain_rows(answer)])
    elif as_csv:
        sys.stdout.write(csv_text(names, ([_listed(value) for value in row] for row in plain_rows(answer))))
    else:
        shown = answer.slice(0, limit) if limit else answer
        console = Console()
        show(console, names, plain_rows(shown))
        if shown.num_rows < answer.num_rows:
            console.print(f"[dim]the first {shown.num_rows:,} rows; --limit 0 shows all[/]")
    if re.search(r"\bscores\b", sql, re.IGNORECASE) and _AVERAGES.search(sql):
        for line in _why_not_the_leaderboard(store):
            terminal.echo(line, err=True)


def _why_not_the_leaderboard(store: Store) -> list[str]:
    """Why an average over rows of scores may differ from the number on the leaderboard; empty if it cannot differ."""
    from troth.metrics import Metric
    from troth.store.noted import metric_of

    cells = [cell for cell in store.cells() if cell.kind == "metric" and not cell.error]
    reasons = []
    for metric in sorted({str(cell.specs.get("metric")) for cell in cells}):
        try:
            built: Metric = metric_of(metric, store.about())
        except TrothError:
            continue
        if built.pooled:
            reasons.append(f"{metric} there is computed from all examples together, not the mean of their values")
    if len({cell.specs.get("seed") for cell in cells}) > 1:
        reasons.append("scores has a row per example and seed, and the leaderboard averages seeds per example first")
    return [f"note: the view leaderboard has the numbers of the leaderboard: {'; '.join(reasons)}"] if reasons else []


def _listed(value: Any) -> Any:
    """A value as a CSV field: lists and structs become JSON."""
    return json.dumps(_plain(value), ensure_ascii=False) if isinstance(value, list | dict) else value


def _plain(value: Any) -> Any:
    """A value that JSON can represent: NaN becomes null, and dates become text."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return without_nan(value) if isinstance(value, str | int | float | bool | None) else str(value)


def show(console: Console, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Prints a table if its columns fit, otherwise each row as a list; only very long values are shortened."""
    names = [visible(name) for name in names]  # escaped before widths are measured
    texts = [[_text(value) for value in row] for row in rows]
    numbers = [any(isinstance(row[place], int | float) for row in rows) for place in range(len(names))]
    widths = []
    for place, name in enumerate(names):
        widest = max((cell_len(row[place]) for row in texts), default=0)
        widths.append(max(cell_len(name), widest if numbers[place] else min(widest, _WIDE)))
    if sum(widths) + _GAP * len(widths) <= console.width:
        table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
        for name, number, width in zip(names, numbers, widths, strict=True):
            table.add_column(Text(name), justify="right" if number else "left", min_width=width, overflow="fold")
        for row in texts:
            table.add_row(*map(Text, row))
        console.print(table)
    else:
        _print_lists(console, names, texts)


def _print_lists(console: Console, names: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    if not texts:
        console.print(Text("no rows; columns: " + ", ".join(names)), soft_wrap=True)
    longest = max(map(cell_len, names))
    for number, row in enumerate(texts, start=1):
        console.print(Text(f"row {number}", style="dim"))
        for name, text in zip(names, row, strict=True):
            head = Text("  " + name + " " * (longest - cell_len(name) + _GAP), style="cyan")
            room = console.width - head.cell_len
            if not console.is_terminal or room < _WIDE:
                console.print(Text.assemble(head, text), soft_wrap=True)
                continue
            # Continuation lines start below the value; a value without spaces is broken where the line ends.
            for place, line in enumerate(Text(text).wrap(console, room, overflow="fold") or [Text()]):
                console.print(Text.assemble(head if not place else " " * head.cell_len, line))


def _text(value: Any) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return visible(text if len(text) <= _WIDEST else f"{text[:_WIDEST]}… ({len(text):,} characters; see --csv)")
