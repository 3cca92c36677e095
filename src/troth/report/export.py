"""A sheet as LaTeX, Markdown, csv or a data frame."""

from __future__ import annotations

import csv as files
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

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


def text(sheets: Sequence[Sheet], form: str) -> str:
    """Several tables in one of the formats; as csv they are one."""
    if form == "csv":
        fields = dict.fromkeys(name for sheet in sheets for name in sheet.fields)
        return csv_text(fields, ([record.get(name) for name in fields] for sheet in sheets for record in sheet.records))
    return "\n".join(latex(sheet) if form == "latex" else markdown(sheet) for sheet in sheets)


def to(path: Place, text: str) -> str:
    """The text, which is also written where a path is given."""
    if path is not None:
        write(Path(path), text.encode())
    return text


def write(path: Path, content: bytes, *, own: bool = False) -> None:
    """A whole file or none; `own` is one of ours in a folder that the user named."""
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
    """A heading and rows; None and NaN are empty, and no text is a formula to a spreadsheet."""
    text = io.StringIO()
    writer = files.writer(text, lineterminator="\n")
    writer.writerow(map(_harmless, names))
    writer.writerows([_harmless(value) if TableCell(value).defined else "" for value in row] for row in rows)
    return text.getvalue()


def _harmless(value: Any) -> Any:
    """A text that a spreadsheet would run begins with a quotation mark, which it hides."""
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
    """Shown as it is written; an underscore within a word needs nothing."""
    for special in "\\|*`[]":
        text = text.replace(special, f"\\{special}")
    return " ".join(text.replace("&", "&amp;").replace("<", "&lt;").split())


def latex_escaped(text: str) -> str:
    """The text as LaTeX prints it.

    >>> print(latex_escaped("a_b & 5 % of {c}"))
    a\\_b \\& 5 \\% of \\{c\\}
    """
    return "".join(_SPECIAL.get(letter, letter) for letter in " ".join(text.split()))


def latex(sheet: Sheet, *, intervals: bool = True) -> str:
    """A floating table with a caption: letters raised, and each row's intervals below its values.

    The document needs \\usepackage{booktabs}.
    """
    columns = "".join("r" if column.number else "l" for column in sheet.columns)
    notes = " ".join(latex_escaped(note) for note in sheet.notes)
    lines = [
        "% needs \\usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_escaped(sheet.title)}.{' ' if notes else ''}{notes}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _latex_row(latex_escaped(column.head) for column in sheet.columns),
        r"\midrule",
    ]
    for row in sheet.rows:
        lines.append(_latex_row(_latex_value(cell) for cell in row))
        if intervals and any(cell.interval for cell in row):
            small = (rf"{{\scriptsize {cell.interval.replace('-', '$-$')}}}" if cell.interval else "" for cell in row)
            lines.append(_latex_row(small))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _latex_value(cell: TableCell) -> str:
    number = isinstance(cell.value, int | float) and cell.defined
    text = cell.text.replace("-", "$-$") if number else latex_escaped(cell.text)
    raised = rf"\textsuperscript{{{latex_escaped(cell.letters)}}}" if cell.letters else ""
    return (rf"\textbf{{{text}}}" if cell.best else text) + raised


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"
