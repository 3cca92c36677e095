"""One self-contained HTML page: nothing from elsewhere, readable on dark and light ground, written aside first."""

from __future__ import annotations

import errno
import html
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from troth.core.errors import TrothError
from troth.core.sheet import Sheet, TableCell
from troth.report import export

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .25rem .7rem; text-align: right; }
tr { border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
th:first-child, td:first-child { text-align: left; }
small, .muted { opacity: .7; }
section { margin: 1.2rem 0; }
"""


def render(title: str, sections: Iterable[str]) -> str:
    """The page; the title is escaped here, the sections are HTML already."""
    body = "\n".join(f"<section>{section}</section>" for section in sections)
    name = html.escape(title)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f"<style>{_STYLE}</style></head>"
        f"<body><h1>{name}</h1>\n{body}\n</body></html>\n"
    )


def write(path: Path, title: str, sections: Iterable[str], *, own: bool = False) -> None:
    """The page as a file; a half-written one is never left behind."""
    export.write(path, render(title, sections).encode(), own=own)


def require_place(path: Path) -> None:
    """One line for a path that no page can be written to, before any work; nothing is made."""
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise TrothError(f"cannot write {path}: {error.strerror}; choose another place") from None


def table(caption: str, head: Iterable[str], rows: Iterable[Iterable[TableCell]]) -> str:
    """An HTML table; every cell is escaped."""
    first = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><caption>{html.escape(caption)}</caption><tr>{first}</tr>{body}</table>"


def sheet_table(sheet: Sheet) -> str:
    """A sheet as such a table."""
    return table(sheet.title, [column.head for column in sheet.columns], sheet.rows)


def _cell(cell: TableCell) -> str:
    value, rest = html.escape(cell.text), html.escape(" ".join(filter(None, (cell.interval, cell.letters))))
    shown = " ".join(filter(None, (f"<b>{value}</b>" if cell.best else value, rest)))
    return f'<span class="muted">{shown}</span>' if cell.weak else shown
