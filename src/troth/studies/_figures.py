"""Curves in panels side by side: what the figures of the studies are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from troth.report.figures import line_styles
from troth.studies._numbers import estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Line(NamedTuple):
    """A curve, with its interval at each place where there is one."""

    places: Sequence[float]
    values: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def over_seeds(places: Sequence[float], by_seed: ArrayLike) -> Line:
    """Means and their intervals. [seeds, places]"""
    return Line(places, *zip(*map(estimate, np.transpose(by_seed)), strict=True))


def draw_lines(
    figure: Figure, panels: Mapping[str, Mapping[str, Line]], across: str, up: str, *, columns: int = 0,
    levels: Mapping[str, float] | None = None,
) -> None:  # fmt: skip
    """A panel per title, so many in a row (0: all); a name looks alike everywhere, `levels` are dashed throughout."""
    if not panels:
        return
    names = dict.fromkeys(name for lines in panels.values() for name in lines)
    styles = line_styles(sorted(names))
    width = columns or len(panels)
    every = figure.subplots(math.ceil(len(panels) / width), width, squeeze=False, sharey=True)
    for axes, (title, lines) in zip(every.flat, panels.items(), strict=False):
        for name, line in lines.items():
            color, marker, style = styles[name]
            axes.plot(line.places, line.values, style, color=color, marker=marker, markersize=3, label=name)
            if len(line.low):
                axes.fill_between(line.places, line.low, line.high, alpha=0.2, color=color)
        for name, level in (levels or {}).items():
            axes.axhline(level, linestyle=":", color="black", linewidth=0.8, label=name)
        axes.set_title(title, fontsize=9)
    for empty in every.flat[len(panels) :]:
        empty.set_axis_off()
    shown = [axes.get_legend_handles_labels() for axes in figure.axes]
    legend = {label: handle for handles, labels in shown for handle, label in zip(handles, labels, strict=True)}
    figure.legend(list(legend.values()), list(legend), fontsize=7, loc="outside right center")
    figure.supxlabel(across, fontsize=9)
    figure.supylabel(up, fontsize=9)
