"""Draws the README's pictures from real output.

    python scripts/docs/pictures.py        # the picture of `troth explain`
    python scripts/docs/pictures.py RUN    # that of `troth bench`, too; RUN is the folder of a bench

`tests/test_pictures.py` compares what the picture of `explain` says with what the program prints today.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT

import troth
from troth.core.terminal import Console
from troth.report import explanation_screen
from troth.report.board import leaderboards
from troth.report.screen import table
from troth.store.store import open_run

IMAGES = Path(__file__).parents[2] / "docs" / "images"
TEXT = "Not a single dull minute: the plot is absurd, the acting wooden, and I loved it anyway."
METHODS = ["leave_one_out", "integrated_gradients", "gradient"]
# Rich's own would fetch its fonts from the network.
_FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


def explained() -> Console:
    """What `troth explain` prints of several methods on a wide terminal."""
    console = _terminal(150)
    model = troth.load_model("embedded")
    proved = troth.prove(model, troth.explain(model, TEXT, METHODS))
    explanation_screen.show(console, list(zip(*proved.values(), strict=True)))
    return console


def benched(run: str) -> Console:
    """What `troth bench` prints in the end."""
    console = _terminal(140)
    board = leaderboards(open_run(run))[0]
    console.print(table(board, width=140))
    for line in board.answer():
        console.print(f"• {line}", markup=False)
    return console


def _terminal(width: int) -> Console:
    """One with colors, whoever calls."""
    return Console(record=True, width=width, force_terminal=True, color_system="truecolor", file=io.StringIO())


def _save(console: Console, name: str, title: str) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    (IMAGES / name).write_text(console.export_svg(title=title, code_format=_FORMAT), encoding="utf-8")


if __name__ == "__main__":
    _save(explained(), "explain.svg", f'troth explain "{TEXT[:24]}…"')
    for folder in sys.argv[1:2]:
        _save(benched(folder), "bench.svg", "troth bench")
