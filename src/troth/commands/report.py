"""A run as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from troth.commands import _options
from troth.core import terminal


def report(
    run: _options.Run,
    out: Annotated[
        Path | None, typer.Option(help="Where to write; by default report.html in the run's folder.")
    ] = None,
    as_json: _options.Json = False,
) -> None:
    """Writes a run's leaderboards as one self-contained HTML page.

    Example: troth report runs/embedded-reviews-5f2c1a
    """
    from troth.report import page
    from troth.report import tables as leaderboard
    from troth.store.store import open_run

    store = open_run(run)
    path = out or store.folder / "report.html"
    page.require_place(path)
    leaderboard.write_report(store, path)
    if as_json:
        _options.print_json({"report": str(path)})
    else:
        terminal.echo(f"written to {path}")
