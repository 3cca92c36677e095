"""Out of the tool into a paper: what has a sheet can be a data frame, LaTeX, Markdown, csv or a figure."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from troth.core.sheet import Sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from troth.report.export import Place


class Exportable:
    """`to_latex`, `to_markdown` and `to_csv` return text, and write it too where a path is given."""

    @abstractmethod
    def sheet(self) -> Sheet:
        """The table that every format is made of."""

    def to_pandas(self) -> Any:
        """A pandas data frame, one row per number, unrounded."""
        from troth.report import export

        return export.frame(self.sheet())

    def to_csv(self, path: Place = None) -> str:
        """The rows of `to_pandas` as csv, unrounded."""
        from troth.report import export

        return export.to(path, export.text([self.sheet()], "csv"))

    def to_markdown(self, path: Place = None) -> str:
        """A table for GitHub and notebooks: best in bold, 95 % intervals, letters of significance."""
        from troth.report import export

        return export.to(path, export.text([self.sheet()], "markdown"))

    def to_latex(self, path: Place = None, *, intervals: bool = True) -> str:
        """A table for LaTeX with the package booktabs: best in bold, letters of significance raised."""
        from troth.report import export

        return export.to(path, export.latex(self.sheet(), intervals=intervals))

    def plot(self, path: str | Path | None = None) -> Figure:
        """A matplotlib figure, and a file where a path is given: its ending says which, .png, .pdf or .svg."""
        from troth.report import figures

        return figures.plot([self.sheet()], path)
