"""Sheets as figures: dots with intervals for a leaderboard, curves, heat maps, costs, bars, a histogram for scores.

The colors are those of Okabe and Ito, which are distinguishable with any kind of color blindness; every name also has
its own marker and line style, so that nothing is conveyed by color alone.
"""

from __future__ import annotations

import base64
import hashlib
import html as markup
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.extras import importing
from troth.core.sheet import NOTHING, Column, Sheet, TableCell
from troth.core.terminal import visible
from troth.core.types import Attribution, Score
from troth.report import export

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ENDINGS = (".png", ".pdf", ".svg")
BLUE, VERMILION, GRAY = "#0072B2", "#D55E00", "#777777"
_COLORS = (BLUE, VERMILION, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS, _LINES = "osD^vPX*", ("-", "--", "-.", ":")
_STYLES = len(_COLORS) * len(_MARKERS) * len(_LINES)
# These get the seven colors; the others repeat the colors with another marker.
_COMMON = ("leave_one_out", "integrated_gradients", "gradient", "attention", "input_x_gradient", "deep_lift", "lime")
_LEAST = 0.1  # milliseconds at which a logarithmic axis begins
_ACROSS = 3  # panels per row
_MOST = 8  # attributions in one figure
_UNITS = 25  # units shown per attribution: those with the largest scores
# Keeps text as text, does not interpret $, and writes the same bytes for the same results.
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none", "svg.hashsalt": "troth", "pdf.fonttype": 42, "text.parse_math": False,
}  # fmt: skip


def plot(sheets: Sequence[Sheet], path: str | Path | None = None) -> Figure:
    """Draws the sheets below each other in one figure, which is saved if a path is given."""
    if path is not None and Path(path).suffix.lower() not in ENDINGS:
        raise TrothError(f"cannot draw {Path(path).name!r}; the name must end with .png, .pdf or .svg")
    for sheet in sheets:
        if sheet.draw is None:
            raise TrothError(f"{sheet.title!r} has no figure; use to_latex, to_markdown or to_csv")
    with importing("figures", "a figure"):
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
    """The content of a file with this suffix."""
    from matplotlib import rc_context

    content = io.BytesIO()
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with rc_context(_SETTINGS):
        _show_controls(figure)
        figure.savefig(content, format=ending[1:], dpi=dpi, metadata=dates.get(ending))
    return content.getvalue()


def _show_controls(figure: Figure) -> None:
    """Replaces control characters in names and texts with visible escapes, because SVG files would contain them."""
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
    """A sheet's figure as HTML without external files, on a white background because its text is black."""
    drawn = base64.b64encode(as_file(plot([sheet]), ".svg")).decode()
    style = "background:#fff;max-width:100%"
    return f'<img alt="{markup.escape(sheet.title)}" style="{style}" src="data:image/svg+xml;base64,{drawn}">'


def _size(part: Any) -> tuple[float, float]:
    """The size in inches, from the number of panels and of the rows in them."""
    grid = part.axes[0].get_gridspec() if part.axes else None
    rows = max((len(axes.get_yticks()) if axes.get_label() == "rows" else 10 for axes in part.axes), default=10)
    down, across = (grid.nrows, grid.ncols) if grid is not None else (1, 1)
    return 2.2 + 2.1 * across, down * (0.9 + 0.24 * rows)


class LineStyle(NamedTuple):
    """How a name is drawn, in all figures of all runs."""

    color: str
    marker: str
    line: str


def line_styles(names: Sequence[str]) -> dict[str, LineStyle]:
    """A style for each name, all different; random is gray and dotted.

    The style of an explainer of the catalog never depends on the other names. Other names, such as specs with options,
    get a style from their hash, or the next free one if another name in the figure has it.
    """
    known = {name: place for place, name in enumerate(dict.fromkeys([*_COMMON, *catalog.names("explainers")]))}
    chosen: dict[str, LineStyle] = {}
    taken = set(known.values())
    for name in sorted({name for name in names if name.lower() != "random"}):
        place = known.get(name)
        if place is None:
            place = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest()) % _STYLES
            while place in taken and len(taken) < _STYLES:
                place = (place + 1) % _STYLES
            taken.add(place)
        line = _LINES[place // (len(_COLORS) * len(_MARKERS)) % len(_LINES)]
        chosen[name] = LineStyle(_COLORS[place % len(_COLORS)], _MARKERS[place % len(_MARKERS)], line)
    return {name: chosen.get(name, LineStyle(GRAY, "x", ":")) for name in names}


def panels(figure: Figure, titles: Sequence[str], across: int = _ACROSS, sharey: bool = False) -> list[Axes]:
    """One panel per title, at most `across` per row."""
    across = min(across, max(1, len(titles)))
    every = list(figure.subplots(-(-max(1, len(titles)) // across), across, squeeze=False, sharey=sharey).flat)
    for axes, title in zip(every, titles, strict=False):
        axes.set_title(title, size=8)
        axes.tick_params(labelsize=7)
    for axes in every[len(titles) :]:
        axes.set_visible(False)
    return every[: len(titles)]


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    """One row per name, the first at the top; the number of rows determines the height of the figure."""
    axes.set_label("rows")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)


def draw_curves(figure: Figure, curves: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]]) -> None:
    """One panel per metric: the remaining performance as more units are erased."""
    names = line_styles(list(dict.fromkeys(name for lines in curves.values() for name in lines)))
    for axes, lines in zip(panels(figure, list(curves)), curves.values(), strict=True):
        for name, (ratios, values) in lines.items():
            style = names[name]
            axes.plot(ratios, values, style.line, color=style.color, marker=style.marker, markersize=4, label=name)
        axes.set_xlabel("share of units erased", size=8)
        axes.legend(fontsize=6)


def draw_bands(figure: Figure, panels_of: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]) -> None:
    """One panel per metric: means with their intervals as bands."""
    names = line_styles(list(dict.fromkeys(name for lines in panels_of.values() for name in lines)))
    for place, (axes, lines) in enumerate(zip(panels(figure, list(panels_of)), panels_of.values(), strict=True)):
        for name, line in lines.items():
            style = names[name]
            axes.plot(line["ratios"], line["mean"], style.line, color=style.color, marker=style.marker, markersize=3,
                      label=name)  # fmt: skip
            axes.fill_between(line["ratios"], line["low"], line["high"], alpha=0.12, color=style.color)
        axes.set_xlabel("share of units", size=8)
        axes.set_ylabel("" if place % _ACROSS else "probability of the class", size=8)
    shown = dict(zip(*reversed(figure.axes[0].get_legend_handles_labels()), strict=True))
    figure.legend(list(shown.values()), list(shown), fontsize=6, loc="outside right center")


def draw_bars(figure: Figure, groups: Mapping[str, Mapping[str, float]]) -> None:
    """One panel per group: a bar for each name, the longest first."""
    for axes, values in zip(panels(figure, list(groups)), groups.values(), strict=True):
        axes.barh(range(len(values)), list(values.values()), color=BLUE)
        axes.set_yticks(range(len(values)), list(values))
        axes.set_ylim(len(values) - 0.4, -0.6)


def draw_calibration(figure: Figure, bins: Sequence[tuple[float, float, int]]) -> None:
    """Accuracy by the confidence of the model; larger dots contain more examples."""
    (axes,) = panels(figure, [""])
    axes.plot([0, 1], [0, 1], color=GRAY, linestyle="--", linewidth=0.8)
    most = max(count for *_, count in bins)
    for sure, right, count in bins:
        axes.plot(sure, right, "o", color=BLUE, markersize=3 + 9 * math.sqrt(count / most))
    axes.set_xlabel("how sure the model is", size=8)
    axes.set_ylabel("how often it is right", size=8)
    axes.set_xlim(0, 1.02)
    axes.set_ylim(-0.02, 1.05)


def draw_dots(figure: Figure, groups: Mapping[str, Mapping[str, TableCell]], level: float = math.nan) -> None:
    """One panel per group: a dot with an interval per name, and a dashed line at the neutral value."""
    for axes, cells in zip(panels(figure, list(groups)), groups.values(), strict=True):
        for place, cell in enumerate(cells.values()):
            if cell.defined:
                axes.plot([cell.low, cell.high], [place, place], color=BLUE, linewidth=1.5)
                axes.plot(cell.value, place, "o", color=BLUE)
        if not math.isnan(level):
            axes.axvline(level, color=GRAY, linestyle="--", linewidth=0.8)
        _name_rows(axes, list(cells))


def draw_heat(figure: Figure, names: Sequence[str], values: Mapping[tuple[str, str], float]) -> None:
    """The agreement of every pair, −1 … 1, with the value in the square."""
    axes = figure.subplots()
    squares = np.full((len(names), len(names)), np.nan)
    for row, first in enumerate(names):
        for column, second in enumerate(names):
            own = 1.0 if first == second else math.nan
            squares[row, column] = values.get((first, second), values.get((second, first), own))
    axes.imshow(squares, cmap="PuOr", vmin=-1, vmax=1, aspect="auto")
    for (row, column), value in np.ndenumerate(squares):
        ink = "white" if abs(value) > 0.7 else "black"
        shown = NOTHING if math.isnan(value) else f"{value:z.2f}"
        axes.text(column, row, shown, ha="center", va="center", size=7, color=ink)
    axes.set_label("rows")
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right", size=7)
    axes.set_yticks(range(len(names)), names, size=7)


def draw_costs(figure: Figure, seconds: Mapping[str, float], groups: Mapping[str, Mapping[str, float]]) -> None:
    """One panel per metric: its value against the milliseconds per explanation."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    names = line_styles(list(seconds))
    for axes, values in zip(panels(figure, list(groups)), groups.values(), strict=True):
        for name, value in values.items():
            if not math.isnan(value):
                style = names[name]
                axes.plot(
                    max(_LEAST, 1000 * seconds[name]), value, style.marker, color=style.color, label=name, linestyle=""
                )
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        # Over more than two decades, the labels between powers of ten would overlap.
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
        axes.xaxis.set_minor_locator(NullLocator())
        # The default formatter would produce TeX.
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel("ms per example", size=8)
        axes.legend(fontsize=6)


def draw_board(figure: Figure, title: str, metrics: Sequence[Column], rows: Sequence[Sequence[TableCell]]) -> None:
    """One panel per metric: the best explainer filled, those no better than random dotted, a dashed line at random."""
    explainers = [row[0].text for row in rows]
    heads = [column.head for column in metrics]
    for number, axes in enumerate(panels(figure, heads, across=4, sharey=True), start=1):
        column = [row[number] for row in rows]
        for place, cell in enumerate(column):
            if not cell.defined:
                continue
            color, line = (GRAY, ":") if cell.weak else (BLUE, "-")
            axes.plot([cell.low, cell.high], [place, place], color=color, linestyle=line, linewidth=1.5)
            face = VERMILION if cell.best else "white"
            edge = VERMILION if cell.best else color
            axes.plot(cell.value, place, "D" if cell.best else "o", markerfacecolor=face, markeredgecolor=edge)
            axes.annotate(cell.letters, (cell.value, place), (0, 5), textcoords="offset points", ha="center", size=6)
        if "random" in explainers and (own := column[explainers.index("random")]).defined:
            axes.axvline(own.value, color=GRAY, linestyle="--", linewidth=0.8)
    for axes in figure.axes:
        _name_rows(axes, explainers)
    figure.suptitle(title, size=9)


def draw_attributions(figure: Figure, attributions: Sequence[Attribution]) -> None:
    """Bars per unit in reading order, hatched if a unit pushes away from the class."""
    if not 1 <= len(attributions) <= _MOST:
        raise TrothError(
            f"a figure shows 1 to {_MOST} attributions, not {len(attributions)}; pass a part of the list: "
            f"attributions[:{_MOST}].plot(…)"
        )
    titles = [f"{one.example.id}: {one.explainer.partition('(')[0]} → {one.label(one.target)}" for one in attributions]
    for axes, attribution in zip(panels(figure, titles, across=4), attributions, strict=True):
        scores = np.nan_to_num(attribution.scores)
        shown = np.sort(np.argsort(-np.abs(scores), kind="stable")[:_UNITS])
        for place, score in enumerate(scores[shown]):
            away = score < 0
            axes.barh(place, score, color=VERMILION if away else BLUE, hatch="///" if away else None)
        axes.axvline(0, color=GRAY, linewidth=0.8)
        _name_rows(axes, [attribution.units[unit] for unit in shown])


def draw_scores(figure: Figure, scores: Sequence[Score]) -> None:
    """The distribution of the values over examples, and their mean."""
    values = np.array([score.value for score in scores], np.float64)
    defined = values[np.isfinite(values)]
    axes = figure.subplots()
    if len(defined):
        axes.hist(defined, bins="auto", color=BLUE, edgecolor="white")
        axes.axvline(defined.mean(), color=VERMILION, linestyle="--", label=f"mean {defined.mean():.3f}")
        axes.legend(fontsize=8)
    undefined = len(values) - len(defined)
    axes.set(xlabel="score" + (f" ({undefined} undefined left out)" if undefined else ""), ylabel="examples")
