"""A sheet as a LaTeX table; the document needs \\usepackage{booktabs}."""

from __future__ import annotations

from collections.abc import Iterable

from troth.core.sheet import Cell, Sheet

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "×": r"$\times$",
    "–": "--", "−": "$-$", "…": r"\ldots{}", "α": r"$\alpha$", "∇": r"$\nabla$",
}  # fmt: skip


def escaped(text: str) -> str:
    """The text as LaTeX prints it.

    >>> print(escaped("a_b & 5 % of {c}"))
    a\\_b \\& 5 \\% of \\{c\\}
    """
    return "".join(_SPECIAL.get(letter, letter) for letter in " ".join(text.split()))


def table(sheet: Sheet, *, intervals: bool = True) -> str:
    """A floating table with a caption: letters raised, and each row's intervals below its values."""
    columns = "".join("r" if column.number else "l" for column in sheet.columns)
    notes = " ".join(escaped(note) for note in sheet.notes)
    lines = [
        "% needs \\usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(sheet.title)}.{' ' if notes else ''}{notes}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _row(escaped(column.head) for column in sheet.columns),
        r"\midrule",
    ]
    for row in sheet.rows:
        lines.append(_row(_value(cell) for cell in row))
        if intervals and any(cell.interval for cell in row):
            lines.append(_row(_interval(cell) for cell in row))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _value(cell: Cell) -> str:
    number = isinstance(cell.value, int | float) and cell.defined
    text = cell.text.replace("-", "$-$") if number else escaped(cell.text)
    raised = rf"\textsuperscript{{{escaped(cell.letters)}}}" if cell.letters else ""
    return (rf"\textbf{{{text}}}" if cell.best else text) + raised


def _interval(cell: Cell) -> str:
    return rf"{{\scriptsize {cell.interval.replace('-', '$-$')}}}" if cell.interval else ""


def _row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"
