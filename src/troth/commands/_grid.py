"""The answer to a query on a terminal: a table where its columns fit, else every row as a list of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from troth.core.terminal import Console, visible

_GAP = 2  # between columns
_LONGEST = 20_000  # characters of a value
_WIDE = 20  # a wider text may be wrapped


def show(console: Console, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Prints all columns and all of their values; only a text of many pages is cut."""
    names = [visible(name) for name in names]  # before widths are measured
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
            console.print(Text.assemble(head, text), soft_wrap=True)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return visible(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters; see --csv)")
