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
from troth.report.screen import closing, table
from troth.store.store import open_run

IMAGES = Path(__file__).parents[2] / "docs" / "images"
# On the first, troth can tell which method is more faithful; the second is too short to tell them apart.
TEXTS = (
    "A wonderful film: we saw it on a rainy Sunday with my mother and two of her friends, and all of us left the "
    "theater happy, humming the songs, and telling strangers at the bus stop to go.",
    "A slow start, but what a wonderful ending.",
)
METHODS = ["leave_one_out", "attention"]
TITLE = f'troth explain "{TEXTS[0][:17]}…" "{TEXTS[1][:12]}…" -e {",".join(METHODS)}'
# Rich's own would fetch its fonts from the network.
_FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


def explained() -> Console:
    """What `troth explain` prints of two texts and two methods, side by side."""
    console = _terminal(104)
    model = troth.load_model("embedded")
    proved = troth.prove(model, troth.explain(model, list(TEXTS), METHODS))
    explanation_screen.show(console, list(zip(*proved.values(), strict=True)))
    return console


def benched(run: str) -> Console:
    """What `troth bench` prints in the end."""
    console = _terminal(80)
    board = leaderboards(open_run(run))[0]
    console.print(table(board, width=console.width))
    console.print()
    for line in closing(board, console.width):
        console.print(line)
    return console


def _terminal(width: int) -> Console:
    """One with colors, whoever calls."""
    return Console(record=True, width=width, force_terminal=True, color_system="truecolor", file=io.StringIO())


def _save(console: Console, name: str, title: str) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    console.print()  # underscores in the last line of a picture would be cut
    (IMAGES / name).write_text(console.export_svg(title=title, code_format=_FORMAT), encoding="utf-8")


if __name__ == "__main__":
    _save(explained(), "explain.svg", TITLE)
    for folder in sys.argv[1:2]:
        _save(benched(folder), "bench.svg", "troth bench")
