"""SQL over a run's stored results."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from troth import terminal
from troth.commands import _options


def query(
    run: Annotated[str, typer.Argument(help="A run's folder, or its name in runs/.")],
    sql: Annotated[str, typer.Argument(help="One SELECT over cells, explanations, scores, examples.")],
    limit: Annotated[int, typer.Option(help="Rows shown; 0 shows all.")] = 50,
    as_json: _options.Json = False,
) -> None:
    """Answers SQL over a run, read-only: views cells, explanations, scores and examples (try: describe scores).

    Example: troth query runs/reviews "select explainer, metric, avg(value) from scores group by all order by 1, 2"
    """
    from rich.markup import escape
    from rich.table import Table

    from troth.sweep.query import query as ask
    from troth.sweep.store import open_run
    from troth.terminal import Console

    store = open_run(run)
    answer = ask(store, sql)
    for path, why in store.unreadable.items():
        terminal.echo(f"{path} is damaged ({why}) and left out; run the sweep again to mend it", err=True)
    if as_json:
        rows = [{name: _plain(value) for name, value in row.items()} for row in answer.to_pylist()]
        _options.print_json(rows)
        return
    shown = answer.slice(0, limit) if limit > 0 else answer
    table = Table(box=None, padding=(0, 2))
    for column in answer.schema:
        number = str(column.type).startswith(("int", "uint", "float", "double", "decimal"))
        table.add_column(escape(column.name), justify="right" if number else "left", overflow="fold")
    for row in shown.to_pylist():
        table.add_row(*(escape(_text(value)) for value in row.values()))
    console = Console(highlight=False)
    console.print(table)
    if shown.num_rows < answer.num_rows:
        console.print(f"[dim]{shown.num_rows} of {answer.num_rows:,} rows; --limit 0 shows all[/]")


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    """As JSON can say it: no NaN, no date."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | bool | None) else str(value)
