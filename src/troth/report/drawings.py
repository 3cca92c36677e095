"""What the figures of a run are drawn with: curves, dots with whiskers, heat maps and costs.

Colors are Okabe and Ito's; every name also has a marker and a line of its own, so that nothing is told by color alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from troth.core.sheet import NOTHING, Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, VERMILION, GRAY = "#0072B2", "#D55E00", "#777777"
_COLORS = (BLUE, VERMILION, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS, _LINES = "osD^vPX*", ("-", "--", "-.", ":")
_LEAST = 0.1  # milliseconds, where an axis of powers begins
_ACROSS = 3  # panels in a row


class Look(NamedTuple):
    """How one name is drawn, everywhere in a figure."""

    color: str
    marker: str
    line: str


def looks(names: Sequence[str]) -> dict[str, Look]:
    """A look for each name; random is gray and dotted. No two are alike among the first 56."""
    real = [name for name in names if name.lower() != "random"]
    chosen = {
        name: Look(
            _COLORS[place % len(_COLORS)], _MARKERS[place % len(_MARKERS)], _LINES[place // len(_COLORS) % len(_LINES)]
        )
        for place, name in enumerate(real)
    }
    return {name: chosen.get(name, Look(GRAY, "x", ":")) for name in names}


def panels(figure: Figure, titles: Sequence[str]) -> list[Axes]:
    """A panel per title."""
    across = min(_ACROSS, max(1, len(titles)))
    every = list(figure.subplots(-(-max(1, len(titles)) // across), across, squeeze=False).flat)
    for axes, title in zip(every, titles, strict=False):
        axes.set_title(title, size=8)
        axes.tick_params(labelsize=7)
    for axes in every[len(titles) :]:
        axes.set_visible(False)
    return every[: len(titles)]


def draw_curves(figure: Figure, curves: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]]) -> None:
    """A panel per metric: what is left of the performance as more and more is erased."""
    names = looks(list(dict.fromkeys(name for lines in curves.values() for name in lines)))
    for axes, lines in zip(panels(figure, list(curves)), curves.values(), strict=True):
        for name, (ratios, values) in lines.items():
            look = names[name]
            axes.plot(ratios, values, look.line, color=look.color, marker=look.marker, markersize=4, label=name)
        axes.set_xlabel("share of units erased", size=8)
        axes.legend(fontsize=6)


def draw_bands(figure: Figure, panels_of: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]) -> None:
    """A panel per metric: means with their intervals as bands."""
    names = looks(list(dict.fromkeys(name for lines in panels_of.values() for name in lines)))
    for place, (axes, lines) in enumerate(zip(panels(figure, list(panels_of)), panels_of.values(), strict=True)):
        for name, line in lines.items():
            look = names[name]
            axes.plot(line["ratios"], line["mean"], look.line, color=look.color, marker=look.marker, markersize=3,
                      label=name)  # fmt: skip
            axes.fill_between(line["ratios"], line["low"], line["high"], alpha=0.12, color=look.color)
        axes.set_xlabel("share of units", size=8)
        axes.set_ylabel("" if place % _ACROSS else "probability of the class", size=8)
    shown = dict(zip(*reversed(figure.axes[0].get_legend_handles_labels()), strict=True))
    figure.legend(list(shown.values()), list(shown), fontsize=6, loc="outside right center")


def draw_bars(figure: Figure, groups: Mapping[str, Mapping[str, float]]) -> None:
    """A panel per group: a bar for each name, the longest first."""
    for axes, values in zip(panels(figure, list(groups)), groups.values(), strict=True):
        axes.barh(range(len(values)), list(values.values()), color=BLUE)
        axes.set_yticks(range(len(values)), list(values))
        axes.set_ylim(len(values) - 0.4, -0.6)


def draw_calibration(figure: Figure, bins: Sequence[tuple[float, float, int]]) -> None:
    """How often the model is right by how sure it is; larger dots hold more examples."""
    (axes,) = panels(figure, [""])
    axes.plot([0, 1], [0, 1], color=GRAY, linestyle="--", linewidth=0.8)
    most = max(count for *_, count in bins)
    for sure, right, count in bins:
        axes.plot(sure, right, "o", color=BLUE, markersize=3 + 9 * math.sqrt(count / most))
    axes.set_xlabel("how sure the model is", size=8)
    axes.set_ylabel("how often it is right", size=8)
    axes.set_xlim(0, 1.02)
    axes.set_ylim(-0.02, 1.05)


def draw_dots(figure: Figure, groups: Mapping[str, Mapping[str, Cell]], level: float = math.nan) -> None:
    """A panel per group: a dot with whiskers per name, and a dashed line at the level that means nothing."""
    for axes, cells in zip(panels(figure, list(groups)), groups.values(), strict=True):
        for place, cell in enumerate(cells.values()):
            if cell.defined:
                axes.plot([cell.low, cell.high], [place, place], color=BLUE, linewidth=1.5)
                axes.plot(cell.value, place, "o", color=BLUE)
        if not math.isnan(level):
            axes.axvline(level, color=GRAY, linestyle="--", linewidth=0.8)
        axes.set_label("rows")
        axes.set_yticks(range(len(cells)), list(cells))
        axes.set_ylim(len(cells) - 0.4, -0.6)


def draw_heat(figure: Figure, names: Sequence[str], values: Mapping[tuple[str, str], float]) -> None:
    """How far every two agree, −1 … 1, with the number in the square."""
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
    """A panel per metric: its number against what an explanation takes, in milliseconds."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    names = looks(list(seconds))
    for axes, values in zip(panels(figure, list(groups)), groups.values(), strict=True):
        for name, value in values.items():
            if not math.isnan(value):
                look = names[name]
                axes.plot(
                    max(_LEAST, 1000 * seconds[name]), value, look.marker, color=look.color, label=name, linestyle=""
                )
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))  # its own would be TeX
        axes.set_xlabel("ms per example", size=8)
        axes.legend(fontsize=6)
