"""Draws the README's pictures from real output: `python scripts/pictures.py RUN`, with RUN the folder of a bench."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.padding import Padding

import troth
from troth.report import explanation as display
from troth.report.board import leaderboards
from troth.report.tables import table
from troth.store.store import open_run

IMAGES = Path(__file__).parents[1] / "docs" / "images"
TEXT = "Not a single dull minute: the plot is absurd, the acting wooden, and I loved it anyway."


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    console = Console(record=True, width=100, highlight=False)
    for explainer in ("leave_one_out", "integrated_gradients", "deep_lift"):
        (attribution,) = troth.explain("embedded", TEXT, explainer)
        if explainer == "leave_one_out":
            console.print(f"[bold]{display.heading(attribution)}[/]")
        console.print(f"[dim]{explainer}[/]")
        console.print(Padding(display.text(attribution), (0, 2)))
    console.save_svg(str(IMAGES / "explain.svg"), title=f'troth explain "{TEXT[:24]}…"')
    board = leaderboards(open_run(sys.argv[1]))[0]
    console = Console(record=True, width=90, highlight=False)
    console.print(table(board, width=90))
    for line in board.answer():
        console.print(f"• {line}", markup=False)
    console.save_svg(str(IMAGES / "bench.svg"), title="troth bench")


if __name__ == "__main__":
    main()
