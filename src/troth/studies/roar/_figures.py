"""The figures of the ROAR study: performance as tokens are erased, and how few tokens hold the importance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from troth import statistics
from troth.studies.roar._curves import Curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_synthetic(figure: Figure, curves: Mapping[str, Sequence[float]]) -> None:
    """Figure 3."""
    axes = figure.subplots()
    for (name, values), style in zip(curves.items(), ("-", "-", "--", ":"), strict=True):
        axes.plot(range(len(values)), values, style, marker="." if style == "-" else None, label=name)
    axes.set(xlabel="features removed", ylabel="accuracy", ylim=(0.45, 1.02))
    axes.legend()


def draw_spread(figure: Figure, spread: Mapping[str, Sequence[int]]) -> None:
    """When each order's accuracy falls, one dot per draw."""
    axes = figure.subplots()
    for place, (name, falls) in enumerate(spread.items()):
        beside = np.zeros(len(falls))
        for value in set(falls):
            same = np.equal(falls, value)
            beside[same] = (np.arange(same.sum()) - (same.sum() - 1) / 2) * 0.03
        axes.plot(falls, place + beside, "o", markersize=4, label=name)
    axes.set(xlabel="features removed when accuracy falls", yticks=range(len(spread)), yticklabels=list(spread))


def draw_curves(figure: Figure, panels: Mapping[str, Sequence[Curve]], metric: str) -> None:
    """Figures 4, 7, 8 and 9: a panel each, means over seeds with their intervals."""
    every = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (title, curves) in zip(every, panels.items(), strict=True):
        for curve in curves:
            _line(axes, curve.places, curve.performance, curve.explainer.partition("(")[0])
        if curves:
            _line(axes, curves[0].places, curves[0].random, "random", color="gray", linestyle="--")
            axes.set_xlabel("share of tokens erased" if curves[0].counted == "share" else "tokens erased")
        axes.set_title(title)
    every[0].set_ylabel(metric.replace("_", "-"))
    every[0].legend(fontsize=8)


def draw_sparsity(figure: Figure, shares: Mapping[str, Any], places: Mapping[str, Sequence[float]]) -> None:
    """Figures 5 and 6: the share of all importance in the top tokens, by number and by share of the text."""
    for axes, (name, at) in zip(figure.subplots(1, 2, sharey=True), places.items(), strict=True):
        for explainer, share in shares.items():
            _line(axes, at, share[name], explainer.partition("(")[0])
        axes.set_xlabel("top tokens" if name == "by_top" else "top share of tokens")
        axes.legend(fontsize=8)
    figure.axes[0].set_ylabel("share of all importance")


def _line(axes: Any, places: Sequence[float], values: Any, label: str, **style: Any) -> None:
    low, high = np.transpose([statistics.bca_interval(column) for column in np.transpose(values)])
    (line,) = axes.plot(places, np.mean(values, axis=0), marker=".", label=label, **style)
    axes.fill_between(places, low, high, color=line.get_color(), alpha=0.2)
