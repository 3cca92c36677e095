"""Sheets as figures: dots with intervals for a leaderboard, bars for attributions, a histogram for scores.

Colors are Okabe and Ito's, which people with any kind of color blindness tell apart; nothing is told by color alone.
"""

from __future__ import annotations

import base64
import html as markup
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import TrothError
from troth.core.sheet import Sheet
from troth.core.terminal import visible
from troth.core.types import Attribution, Score
from troth.report import export
from troth.report.drawings import BLUE, GRAY, VERMILION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from troth.report.board import Leaderboard

ENDINGS = (".png", ".pdf", ".svg")
_MOST = 8  # attributions in one figure
_UNITS = 25  # of one attribution: those that matter most
# Text stays text, a $ is a letter, and the same results give the same bytes.
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none", "svg.hashsalt": "troth", "pdf.fonttype": 42, "text.parse_math": False,
}  # fmt: skip


def plot(sheets: Sequence[Sheet], path: str | Path | None = None) -> Figure:
    """One figure, its parts below each other, written where a path is given."""
    if path is not None and Path(path).suffix.lower() not in ENDINGS:
        raise TrothError(f"cannot draw {Path(path).name!r}; end the name with .png, .pdf or .svg")
    for sheet in sheets:
        if sheet.draw is None:
            raise TrothError(f"{sheet.title!r} has no figure; use to_latex, to_markdown or to_csv")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_SETTINGS):
        figure = Figure(layout="constrained")
        parts: Any = [figure] if len(sheets) == 1 else figure.subfigures(max(1, len(sheets)), squeeze=False)[:, 0]
        sizes = []
        for part, sheet in zip(parts, sheets, strict=True):
            assert sheet.draw is not None
            sheet.draw(part)
            sizes.append(_size(part))
        figure.set_size_inches(max(width for width, _ in sizes), sum(height for _, height in sizes))
    if path is not None:
        export.write(Path(path), as_file(figure, Path(path).suffix.lower()))
    return figure


def as_file(figure: Figure, ending: str, dpi: int = 200) -> bytes:
    """What a file with this ending holds."""
    from matplotlib import rc_context

    content = io.BytesIO()
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with rc_context(_SETTINGS):
        _show_controls(figure)
        figure.savefig(content, format=ending[1:], dpi=dpi, metadata=dates.get(ending))
    return content.getvalue()


def _show_controls(figure: Figure) -> None:
    """Control characters in names and texts become visible escapes: an SVG file would hold them as they are."""
    from matplotlib.axis import Axis
    from matplotlib.text import Text

    for axis in figure.findobj(Axis):
        labels = [label.get_text() for label in axis.get_ticklabels()]
        shown = [visible(label) for label in labels]
        if shown != labels:
            axis.set_ticks(axis.get_ticklocs(), shown)
    for text in figure.findobj(Text):
        if (shown_text := visible(text.get_text())) != text.get_text():
            text.set_text(shown_text)


def inline(sheet: Sheet) -> str:
    """A sheet's figure as HTML that needs no file; on white, whatever the page's ground is: its ink is black."""
    drawn = base64.b64encode(as_file(plot([sheet]), ".svg")).decode()
    style = "background:#fff;max-width:100%"
    return f'<img alt="{markup.escape(sheet.title)}" style="{style}" src="data:image/svg+xml;base64,{drawn}">'


def _size(part: Any) -> tuple[float, float]:
    """Inches: by the number of panels and of the rows in them."""
    grid = part.axes[0].get_gridspec() if part.axes else None
    rows = max((len(axes.get_yticks()) if axes.get_label() == "rows" else 10 for axes in part.axes), default=10)
    down, across = (grid.nrows, grid.ncols) if grid is not None else (1, 1)
    return 2.2 + 2.1 * across, down * (0.9 + 0.24 * rows)


def draw_board(figure: Figure, board: Leaderboard, explainers: Sequence[str]) -> None:
    """A panel per metric; the best filled, dotted what is no better than random, a dashed line where random is."""
    from troth.report.board_sheet import sheet, short_names

    cells = [row[1:] for row in sheet(board, explainers).rows]
    heads = short_names(board.metrics)
    places = np.arange(len(explainers))
    across = min(4, max(1, len(board.metrics)))
    panels = figure.subplots(-(-max(1, len(board.metrics)) // across), across, sharey=True, squeeze=False).ravel()
    for number, (axes, metric) in enumerate(zip(panels, board.metrics, strict=False)):
        column = [row[number] for row in cells]
        for place, cell in zip(places, column, strict=True):
            if not cell.defined:
                continue
            color, line = (GRAY, ":") if cell.weak else (BLUE, "-")
            axes.plot([cell.low, cell.high], [place, place], color=color, linestyle=line, linewidth=1.5)
            face = VERMILION if cell.best else "white"
            edge = VERMILION if cell.best else color
            axes.plot(cell.value, place, "D" if cell.best else "o", markerfacecolor=face, markeredgecolor=edge)
            axes.annotate(cell.letters, (cell.value, place), (0, 5), textcoords="offset points", ha="center", size=6)
        if "random" in explainers and (own := column[list(explainers).index("random")]).defined:
            axes.axvline(own.value, color=GRAY, linestyle="--", linewidth=0.8)
        arrow = {True: " ↑", False: " ↓", None: ""}[board.directions[metric]]
        axes.set_title(heads[metric] + arrow, size=8)
        axes.tick_params(labelsize=7)
    for axes in panels:
        axes.set_label("rows")
        axes.set_yticks(places, explainers)
        axes.set_ylim(len(explainers) - 0.4, -0.6)
    for axes in panels[len(board.metrics) :]:
        axes.set_visible(False)
    figure.suptitle(board.title, size=9)


def draw_attributions(figure: Figure, attributions: Sequence[Attribution]) -> None:
    """Bars per unit in reading order; hatched where a unit pushes away from the class."""
    if not 1 <= len(attributions) <= _MOST:
        raise TrothError(
            f"a figure shows 1 to {_MOST} attributions, not {len(attributions)}; take a part of the list: "
            f"attributions[:{_MOST}].plot(…)"
        )
    across = min(4, len(attributions))
    panels = figure.subplots(-(-len(attributions) // across), across, squeeze=False).ravel()
    for axes, attribution in zip(panels, attributions, strict=False):
        scores = np.nan_to_num(attribution.scores)
        shown = np.sort(np.argsort(-np.abs(scores), kind="stable")[:_UNITS])
        places = np.arange(len(shown))
        for place, score in zip(places, scores[shown], strict=True):
            away = score < 0
            axes.barh(place, score, color=VERMILION if away else BLUE, hatch="///" if away else None)
        axes.axvline(0, color=GRAY, linewidth=0.8)
        axes.set_label("rows")
        axes.set_yticks(places, [attribution.units[unit] for unit in shown])
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.tick_params(labelsize=7)
        target = attribution.label(attribution.target)
        axes.set_title(f"{attribution.example.id}: {attribution.explainer.partition('(')[0]} → {target}", size=8)
    for axes in panels[len(attributions) :]:
        axes.set_visible(False)


def draw_scores(figure: Figure, scores: Sequence[Score]) -> None:
    """How the values spread over examples, and their mean."""
    values = np.array([score.value for score in scores], np.float64)
    defined = values[np.isfinite(values)]
    axes = figure.subplots()
    if len(defined):
        axes.hist(defined, bins="auto", color=BLUE, edgecolor="white")
        axes.axvline(defined.mean(), color=VERMILION, linestyle="--", label=f"mean {defined.mean():.3f}")
        axes.legend(fontsize=8)
    undefined = len(values) - len(defined)
    axes.set(xlabel="score" + (f" ({undefined} undefined left out)" if undefined else ""), ylabel="examples")
