"""Draws the README's pictures from real output: `python scripts/pictures.py RUN`, with RUN the folder of a bench."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

import troth
from troth.commands import _showing
from troth.report.board import leaderboards
from troth.report.tables import table
from troth.store.store import open_run

IMAGES = Path(__file__).parents[1] / "docs" / "images"
TEXT = "Not a single dull minute: the plot is absurd, the acting wooden, and I loved it anyway."
# Rich's own picture names fonts on the web; nothing of ours is fetched from outside.
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    console = Console(record=True, width=110, highlight=False)
    model = troth.load_model("embedded")
    by_method = troth.explain(model, TEXT, ["leave_one_out", "integrated_gradients", "gradient"])
    _showing.show(console, list(zip(*troth.prove(model, by_method).values(), strict=True)))
    console.save_svg(str(IMAGES / "explain.svg"), title=f'troth explain "{TEXT[:24]}…"', code_format=FORMAT)
    board = leaderboards(open_run(sys.argv[1]))[0]
    console = Console(record=True, width=140, highlight=False)
    console.print(table(board, width=140))
    for line in board.answer():
        console.print(f"• {line}", markup=False)
    console.save_svg(str(IMAGES / "bench.svg"), title="troth bench", code_format=FORMAT)


if __name__ == "__main__":
    main()
