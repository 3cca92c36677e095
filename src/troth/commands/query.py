"""SQL over a run's stored results."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from troth.commands import _options
from troth.core import reading, terminal
from troth.core.errors import TrothError

if TYPE_CHECKING:
    from troth.store.store import Store

_LONGEST = 86_400  # seconds
_LEAST, _MOST = 64 << 20, 1 << 40  # bytes
_AVERAGES = re.compile(r"\b(avg|mean|median|sum)\s*\(", re.IGNORECASE)


def query(
    run: _options.Run,
    sql: Annotated[
        str, typer.Argument(help="One SELECT over leaderboard, scores, explanations, examples, checks or cells.")
    ],
    limit: Annotated[int, typer.Option(help="Rows shown; 0 shows all.")] = 50,
    as_csv: Annotated[bool, typer.Option("--csv", help="All rows as csv, unrounded.")] = False,
    as_json: _options.Json = False,
    seconds: Annotated[float, typer.Option(help="Stop the query after this many seconds.")] = 60.0,
    memory: Annotated[str, typer.Option(help="The most memory that the query may take: 1GB.")] = "1GB",
) -> None:
    """Answers SQL over a run, read-only. The views: leaderboard (the numbers that bench prints), scores (a row per
    example and seed), explanations, examples, checks, cells. Try: describe leaderboard

    Example: troth query runs/reviews "select explainer, metric, value, low, high from leaderboard order by 2, 3"
    """
    from troth.commands import _grid
    from troth.core.terminal import Console
    from troth.report.board import leaderboards
    from troth.report.export import csv_text
    from troth.report.tables import LEADERBOARD, as_table
    from troth.store.query import View, plain_rows
    from troth.store.query import query as ask
    from troth.store.sql_process import QueryLimits
    from troth.store.store import open_run

    _options.require("--limit", limit, limit >= 0, "0 or more")
    _options.require("--seconds", seconds, 0 < seconds <= _LONGEST, f"above 0, and at most {_LONGEST:,}")
    limits = QueryLimits(seconds, reading.bytes_of(memory, "--memory"))
    _options.require("--memory", memory, _LEAST <= limits.memory <= _MOST, "64MB to 1024GB")
    if as_csv and as_json:
        raise TrothError("--csv and --json are two formats; choose one")
    store = open_run(run, sound=True)
    views = {"leaderboard": View(LEADERBOARD, lambda: as_table(leaderboards(store)))}
    rows = 0 if as_csv or as_json or not limit else min(limit + 1, 1 << 62)  # one more shows that there are more
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
        _grid.show(console, names, plain_rows(shown))
        if shown.num_rows < answer.num_rows:
            console.print(f"[dim]the first {shown.num_rows:,} rows; --limit 0 shows all[/]")
    if re.search(r"\bscores\b", sql, re.IGNORECASE) and _AVERAGES.search(sql):
        for line in _why_not_the_leaderboard(store):
            terminal.echo(line, err=True)


def _why_not_the_leaderboard(store: Store) -> list[str]:
    """Why an average over the rows of scores may differ from the leaderboard's number; nothing where it cannot."""
    from troth.core import catalog
    from troth.metrics import Metric

    cells = [cell for cell in store.cells() if cell.kind == "metric" and not cell.error]
    reasons = []
    for metric in sorted({str(cell.specs.get("metric")) for cell in cells}):
        try:
            built: Metric = catalog.build("metrics", metric)
        except TrothError:
            continue
        if built.pooled:
            reasons.append(f"{metric} there is computed from all examples together, not the mean of their values")
    if len({cell.specs.get("seed") for cell in cells}) > 1:
        reasons.append("scores has a row per example and seed, and the leaderboard averages seeds per example first")
    return [f"note: the view leaderboard has the numbers of the leaderboard: {'; '.join(reasons)}"] if reasons else []


def _listed(value: Any) -> Any:
    """As one field of csv: a list or a struct as JSON."""
    return json.dumps(_plain(value), ensure_ascii=False) if isinstance(value, list | dict) else value


def _plain(value: Any) -> Any:
    """As JSON can say it: no NaN, no date."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return value if isinstance(value, str | int | bool | None) else str(value)
