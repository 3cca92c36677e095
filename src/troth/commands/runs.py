"""Lists the runs in a folder."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from troth.commands import _options
from troth.core.terminal import Console


def runs(
    folder: Annotated[str, typer.Argument(help="The folder that contains the runs, or one run.")] = "runs",
    as_json: _options.Json = False,
) -> None:
    """Lists runs: their date, models and data, and how much of them is finished.

    Example: troth runs
    """
    from troth.store.runs import list_runs

    found = list_runs(folder)
    if as_json:
        _options.print_json(found)
        return
    console = Console()
    if not found:
        console.print(f"no runs in {escape(folder)}")
        return
    table = Table(box=None, padding=(0, 1))
    for column in ("run", "made", "models", "data", "finished", "failed", "MB"):
        number = column in ("finished", "failed", "MB")
        whole = number or column == "run"  # a wrapped name could not be copied
        table.add_column(column, justify="right" if number else "left", overflow="fold", no_wrap=whole)
    for one in found:
        table.add_row(*(escape(text) for text in _row(one)))
    console.print(table)
    console.print("finished, failed: cells (pieces of work)", style="dim")


def _row(run: dict[str, Any]) -> list[str]:
    if run["problem"]:
        return [run["run"], run["problem"]]
    return [
        run["run"],
        run["created"][:16].replace("T", " "),
        ", ".join(run["models"]),
        ", ".join(run["data"]),
        f"{run['finished']} of {run['planned']}",
        str(run["failed"]),
        f"{run['bytes'] / 1e6:.1f}",
    ]
