"""One table for every output format: terminal, HTML, LaTeX, Markdown, csv, data frames and figures use the same
cells.

Numbers in tables are formatted only here, so that all formats show the same text.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from troth import core

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTHING = "–"
_ARROWS = {True: "↑", False: "↓", None: ""}


@dataclass(frozen=True)
class TableCell:
    """A number, optionally with its interval, or a text."""

    value: Any  # None or NaN: undefined
    low: float = math.nan
    high: float = math.nan
    letters: str = ""  # rows that share a letter do not differ significantly
    best: bool = False  # best of its column
    weak: bool = False  # no better than random

    @property
    def defined(self) -> bool:
        return self.value is not None and not (isinstance(self.value, float) and math.isnan(self.value))

    @property
    def text(self) -> str:
        """
        >>> [TableCell(value).text for value in (0.12345, -0.0001, 3, float("nan"), "x")]
        ['0.123', '0.000', '3', '–', 'x']
        """
        if not self.defined:
            return NOTHING
        return _decimal(self.value) if isinstance(self.value, float) else str(self.value)

    @property
    def interval(self) -> str:
        """
        >>> TableCell(0.5, 0.25, 0.75).interval, TableCell(0.5).interval, TableCell(0.5, 0.25, 1.3e16).interval
        ('[0.250, 0.750]', '', '[0.250, 1.3e+16]')
        """
        if not self.defined or math.isnan(self.low):
            return ""
        return f"[{_decimal(self.low)}, {_decimal(self.high)}]"


def _decimal(value: float) -> str:
    """Three decimals, without the sign of a rounded zero; an exponent for numbers that would be too long."""
    return f"{value:z.3f}" if abs(value) < 1e6 else f"{value:.2g}"


@dataclass(frozen=True)
class Column:
    """A heading; its arrow points to the better direction."""

    name: str
    higher_is_better: bool | None = None
    number: bool = True  # aligned to the right

    @property
    def head(self) -> str:
        return f"{self.name} {_ARROWS[self.higher_is_better]}".rstrip()


@dataclass(frozen=True, eq=False)
class Sheet:
    """Rows of cells for people, and the same data as plain records for programs."""

    title: str
    columns: Sequence[Column]  # the first one contains the names of the rows
    rows: Sequence[Sequence[TableCell]]
    records: Sequence[Mapping[str, Any]]  # all with the keys `fields`; None if undefined
    fields: Sequence[str]
    notes: Sequence[str] = ()  # sentences that a reader of the table must know
    draw: Callable[[Figure], None] | None = None


def plain_sheet(
    title: str,
    fields: Sequence[str],
    rows: Sequence[Sequence[Any]],
    notes: Sequence[str] = (),
    draw: Callable[[Figure], None] | None = None,
) -> Sheet:
    """A table of values without intervals, the same for people and for programs."""
    numbers = [any(isinstance(row[place], int | float) for row in rows) for place in range(len(fields))]
    return Sheet(
        title,
        [Column(name, number=number) for name, number in zip(fields, numbers, strict=True)],
        [[TableCell(value) for value in row] for row in rows],
        [{name: plain(value) for name, value in zip(fields, row, strict=True)} for row in rows],
        fields,
        notes,
        draw,
    )


class Exportable:
    """`to_latex`, `to_markdown` and `to_csv` return text, and also write it if a path is given."""

    @abstractmethod
    def sheet(self) -> Sheet:
        """The table from which every format is made."""

    def to_pandas(self) -> Any:
        """A pandas data frame with unrounded values, one row per number."""
        return core.rooms["showing"]().frame(self.sheet())

    def to_csv(self, path: str | Path | None = None) -> str:
        """The rows of `to_pandas` as csv, unrounded."""
        return self._written(path, "csv")

    def to_markdown(self, path: str | Path | None = None) -> str:
        """A table for GitHub and notebooks: the best values in bold, with 95 % intervals and letters of
        significance.
        """
        return self._written(path, "markdown")

    def to_latex(self, path: str | Path | None = None, *, intervals: bool = True) -> str:
        """A table for LaTeX with the package booktabs: the best values in bold, with letters of significance as
        superscripts.
        """
        return self._written(path, "latex", intervals=intervals)

    def plot(self, path: str | Path | None = None) -> Figure:
        """A matplotlib figure, also saved if a path is given; its suffix chooses the format: .png, .pdf or .svg."""
        figure: Figure = core.rooms["showing"]().plot([self.sheet()], path)
        return figure

    def _written(self, path: str | Path | None, form: str, **options: Any) -> str:
        text: str = core.rooms["showing"]().written(path, self.sheet(), form, **options)
        return text


def plain(value: Any) -> Any:
    """The value, or None if it is undefined."""
    return value if TableCell(value).defined else None


def without_nan(value: Any, digits: int | None = None) -> Any:
    """Plain data that JSON can represent: NaN and infinities become None; with `digits`, floats are rounded.

    >>> without_nan({"p": float("nan"), "values": (0.123456, 3, "x")}, digits=3)
    {'p': None, 'values': [0.123, 3, 'x']}
    """
    if isinstance(value, Mapping):
        return {str(key): without_nan(part, digits) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(part, digits) for part in value]
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return float(value) if digits is None else float(f"{value:.{digits}g}")
