"""Reads the cells of a study from the store, and combines and formats numbers for tables and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import ArrayLike

from troth import statistics
from troth.core.errors import TrothError
from troth.core.types import Score
from troth.report.figures import line_styles
from troth.statistics import Floats
from troth.store.cells import Cell, Plan
from troth.store.store import Store
from troth.store.tables import table_to_scores
from troth.training.quality import quality

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Range = tuple[float, float, float]  # value, low, high


class Results:
    """The stored cells of a plan; a failed cell has no rows, which is not an error."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def table(self, cell: Cell) -> pa.Table | None:
        """The rows of a cell."""
        return self.store.table(cell.name) if self.store.has(cell.name) else None

    def rows(self, cell: Cell) -> list[dict[str, Any]]:
        """The rows of a cell as dictionaries."""
        table = self.table(cell)
        return [] if table is None else table.to_pylist()

    def scores(self, cell: Cell) -> list[Score]:
        """The scores of a metric cell, one per example."""
        table = self.table(cell)
        return [] if table is None else table_to_scores(table)

    def values(self, cell: Cell) -> Floats:
        """The values of a metric cell; NaN where undefined."""
        return np.array([score.value for score in self.scores(cell)], np.float64)

    def predicted(self, cell: Cell, split: str = "test") -> tuple[Any, Any]:
        """The labels and predictions of a trained model."""
        rows = [row for row in self.rows(cell) if row["split"] == split]
        return np.array([row["label"] for row in rows]), np.array([row["predicted"] for row in rows])

    def quality(self, cell: Cell, metric: Any = "macro_f1", split: str = "test") -> float:
        """The performance of a trained model."""
        rows = [row for row in self.rows(cell) if row["split"] == split]
        if not rows:
            return float("nan")
        logits = torch.tensor([row["probabilities"] for row in rows]).clamp(min=1e-12).log()
        return quality(metric, logits, torch.tensor([row["label"] for row in rows]))

    def troubles(self, plan: Plan) -> str:
        """The cells that failed and why, each error once; if no model could be trained, an error for the user to
        fix.
        """
        failures = [self.store.failure(name) for name in plan.cells if not self.store.has(name)]
        errors: dict[tuple[str, str], dict[str, None]] = {}  # (kind, why) -> methods
        for failure in failures:
            if failure is not None:
                methods = filter(None, (failure.specs.get("explainer"), failure.specs.get("metric")))
                errors.setdefault((failure.kind, failure.error), {})[" × ".join(methods)] = None
        words = [
            f"{kind} failed{f' ({named})' if (named := ', '.join(filter(None, methods))) else ''}: {why}"
            for (kind, why), methods in errors.items()
        ]
        trainings = list(plan.of("training"))
        if errors and trainings and not any(self.store.has(cell.name) for cell in trainings):
            raise TrothError(words[0])
        return "; ".join(words)


def estimate(by_seed: ArrayLike) -> Range:
    """The mean and 95 % interval (Student's t) over seeds, without undefined values; a single seed has no interval."""
    values = np.asarray(by_seed, np.float64)
    return statistics.crossed_mean(values[~np.isnan(values), None])[:3]


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """The mean and standard deviation over seeds; that of one seed is undefined."""
    by_seed = np.array(values, np.float64)
    return float(by_seed.mean()), float(by_seed.std(ddof=1)) if len(by_seed) > 1 else float("nan")


def with_interval(estimate: Sequence[float], decimals: int = 3) -> str:
    """A table's cell for a value and its interval, where it has one.

    >>> with_interval((0.5, 0.25, 0.75), 2), with_interval((0.5, float("nan"), float("nan")), 2)
    ('0.50 [0.25, 0.75]', '0.50')
    """
    value, low, high = estimate
    if np.isnan(value):
        return "–"
    return f"{value:.{decimals}f}" + ("" if np.isnan(low) else f" [{low:.{decimals}f}, {high:.{decimals}f}]")


def percent(estimate: Sequence[float]) -> str:
    """A value and its interval in percent, with one decimal."""
    return with_interval([100 * number for number in estimate], 1)


def learning_rates(settings: Mapping[str, Any]) -> list[str | None]:
    """The learning rates of the model and of its head, for a table; None if there is none."""
    names = ("learning_rate", "head_learning_rate")
    return [f"{settings[name]:g}" if settings.get(name) else None for name in names]


class Line(NamedTuple):
    """A curve, with an interval at each point that has one."""

    places: Sequence[float]
    values: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def over_seeds(places: Sequence[float], by_seed: ArrayLike) -> Line:
    """Means over seeds with their intervals. [seeds, points]"""
    return Line(places, *zip(*map(estimate, np.transpose(by_seed)), strict=True))


def draw_lines(
    figure: Figure, panels: Mapping[str, Mapping[str, Line]], across: str, up: str, *, columns: int = 0,
    levels: Mapping[str, float] | None = None,
) -> None:  # fmt: skip
    """Draws a panel per title, `columns` in a row (0: all); a name has the same style in all panels, `levels` are
    dashed lines.
    """
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
