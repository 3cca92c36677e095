"""A sheet as LaTeX, Markdown, csv, HTML or a data frame; and HTML pages.

A page is one file without external resources, readable on light and dark backgrounds.
"""

from __future__ import annotations

import csv as files
import errno
import html as markup
import io
import os
import re
import stat
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import troth
from troth.core.errors import TrothError
from troth.core.files import CannotWriteError, write_output
from troth.core.sheet import Sheet, TableCell

Place = str | Path | None
FORMATS = ("latex", "markdown", "csv")
_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "×": r"$\times$",
    "–": "--", "−": "$-$", "…": r"\ldots{}", "α": r"$\alpha$", "∇": r"$\nabla$",
}  # fmt: skip
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .25rem .7rem; text-align: right; }
tr { border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
th:first-child, td:first-child { text-align: left; }
@media (max-width: 30rem) { th, td { padding: .25rem .35rem; } }
small, .muted { opacity: .7; }
section { margin: 1.2rem 0; overflow-x: auto; }
"""


def text(sheets: Sequence[Sheet], form: str) -> str:
    """Several tables in one of the formats; csv joins them into one table."""
    if form == "csv":
        fields = dict.fromkeys(name for sheet in sheets for name in sheet.fields)
        return csv_text(fields, ([record.get(name) for name in fields] for sheet in sheets for record in sheet.records))
    return "\n".join(latex(sheet) if form == "latex" else markdown(sheet) for sheet in sheets)


def to(path: Place, text: str) -> str:
    """Returns the text, and also writes it if a path is given."""
    if path is not None:
        write(Path(path), text.encode())
    return text


def write(path: Path, content: bytes, *, own: bool = False) -> None:
    """Writes the whole file or nothing; `own` marks a file of troth in a folder that the user named."""
    try:
        write_output(path, content, own=own)
    except CannotWriteError as error:
        reason = getattr(error.__cause__, "strerror", None)
        line = f"cannot write {path}: {reason}" if reason else str(error)
        raise TrothError(f"{line}; choose another place") from None


def frame(sheet: Sheet) -> Any:
    """The records as a pandas data frame."""
    try:
        import pandas
    except ImportError:
        raise TrothError("to_pandas needs pandas; install it with: pip install pandas") from None
    return pandas.DataFrame.from_records([dict(record) for record in sheet.records], columns=list(sheet.fields))


def csv_text(names: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A header and rows; None and NaN are empty, and text that spreadsheets would read as a formula is escaped."""
    text = io.StringIO()
    writer = files.writer(text, lineterminator="\n")
    writer.writerow(map(_harmless, names))
    writer.writerows([_harmless(value) if TableCell(value).defined else "" for value in row] for row in rows)
    return text.getvalue()


def _harmless(value: Any) -> Any:
    """Prefixes text that a spreadsheet would execute with an apostrophe, which spreadsheets hide."""
    is_formula = isinstance(value, str) and value.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    return f"'{value}" if is_formula else value


def markdown(sheet: Sheet) -> str:
    """A table with its title above and its notes below."""
    lines = [f"**{_escaped(sheet.title)}**", ""]
    lines.append(f"| {' | '.join(_escaped(column.head) for column in sheet.columns)} |")
    lines.append("|" + "|".join("--:" if column.number else ":--" for column in sheet.columns) + "|")
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in sheet.rows]
    if sheet.notes:
        lines += ["", *(_escaped(note) for note in sheet.notes)]
    return "\n".join(lines) + "\n"


def _cell(cell: TableCell) -> str:
    text = _escaped(cell.text)
    return " ".join(filter(None, (f"**{text}**" if cell.best else text, cell.interval, cell.letters)))


def _escaped(text: str) -> str:
    """Escapes Markdown; an underscore within a word needs no escape."""
    for special in "\\|*`[]":
        text = text.replace(special, f"\\{special}")
    return " ".join(text.replace("&", "&amp;").replace("<", "&lt;").split())


def latex_escaped(text: str) -> str:
    """Escapes text for LaTeX.

    >>> print(latex_escaped("a_b & 5 % of {c}"))
    a\\_b \\& 5 \\% of \\{c\\}
    """
    return "".join(_SPECIAL.get(letter, letter) for letter in " ".join(text.split()))


def latex(sheet: Sheet, *, intervals: bool = True) -> str:
    """A floating table with a caption: letters as superscripts, and each row's intervals below its values.

    The document needs \\usepackage{booktabs} and graphicx, which scales down a table that is too wide.
    """
    columns = "".join("r" if column.number else "l" for column in sheet.columns)
    notes = " ".join(latex_escaped(note) for note in sheet.notes)
    lines = [
        "% needs \\usepackage{booktabs} and \\usepackage{graphicx}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_escaped(sheet.title)}.{' ' if notes else ''}{notes}}}",
        rf"\label{{tab:{re.sub('[^a-z0-9]+', '-', sheet.title.lower()).strip('-')[:60].strip('-')}}}",
        # The table is measured first, so that it is scaled only if it is wider than the text.
        rf"\setbox0=\hbox{{\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _latex_row(_latex_head(column.head) for column in sheet.columns),
        r"\midrule",
    ]
    for row in sheet.rows:
        lines.append(_latex_row(_latex_value(cell) for cell in row))
        if intervals and any(cell.interval for cell in row):
            small = (rf"{{\scriptsize {cell.interval.replace('-', '$-$')}}}" if cell.interval else "" for cell in row)
            lines.append(_latex_row(small))
    fitted = r"\ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\box0}\else\box0\fi"
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}", fitted, r"\end{table}", ""])


def _latex_head(head: str) -> str:
    """A column heading; the masking is on a second line below the metric's name."""
    name, by, masking = head.partition(" by ")
    if not by:
        return latex_escaped(head)
    return rf"\shortstack[r]{{{latex_escaped(name)}\\{latex_escaped(f'by {masking}')}}}"


def _latex_value(cell: TableCell) -> str:
    number = isinstance(cell.value, int | float) and cell.defined
    text = cell.text.replace("-", "$-$") if number else latex_escaped(cell.text)
    raised = rf"\textsuperscript{{{latex_escaped(cell.letters)}}}" if cell.letters else ""
    return (rf"\textbf{{{text}}}" if cell.best else text) + raised


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def html_page(title: str, sections: Iterable[str]) -> str:
    """An HTML page; the title is escaped here, and sections must already be HTML."""
    body = "\n".join(f"<section>{section}</section>" for section in sections)
    name = markup.escape(title)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f"<style>{_STYLE}</style></head>"
        f"<body><h1>{name}</h1>\n{body}\n</body></html>\n"
    )


def made_by(model: str, data: str | None = None) -> str:
    """A line for pages with the model, the data, the date and the version."""
    parts = (f"model {model}", f"data {data}" if data else "", time.strftime("%Y-%m-%d"), f"troth {troth.__version__}")
    return f'<p class="muted">{markup.escape(" · ".join(filter(None, parts)))}</p>'


def write_page(path: Path, title: str, sections: Iterable[str], *, own: bool = False) -> None:
    """Writes a page to a file, completely or not at all."""
    write(path, html_page(title, sections).encode(), own=own)


def require_place(path: Path) -> None:
    """Raises a one-line error for a path to which no page can be written, before any work and without creating
    anything.
    """
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise TrothError(f"cannot write {path}: {error.strerror}; choose another place") from None


def html_table(caption: str, head: Iterable[str], rows: Iterable[Iterable[TableCell]]) -> str:
    """An HTML table; every cell is escaped."""
    first = "".join(f"<th>{markup.escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{_html_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><caption>{markup.escape(caption)}</caption><tr>{first}</tr>{body}</table>"


def html(sheet: Sheet) -> str:
    """A sheet as an HTML table."""
    return html_table(sheet.title, [column.head for column in sheet.columns], sheet.rows)


def html_with_notes(sheet: Sheet) -> str:
    """A sheet as an HTML table, with its notes below."""
    return html(sheet) + "".join(f"<p><small>{markup.escape(note)}</small></p>" for note in sheet.notes)


def _html_cell(cell: TableCell) -> str:
    value, rest = markup.escape(cell.text), markup.escape(" ".join(filter(None, (cell.interval, cell.letters))))
    shown = " ".join(filter(None, (f"<b>{value}</b>" if cell.best else value, rest)))
    return f'<span class="muted">{shown}</span>' if cell.weak else shown
