"""How the tables of the studies put numbers together and show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from troth import statistics

Range = tuple[float, float, float]  # value, low, high


def estimate(by_seed: ArrayLike) -> Range:
    """Mean and 95 % interval (BCa) over seeds; undefined ones do not count."""
    return statistics.mean(by_seed), *statistics.bca_interval(by_seed)


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Over seeds; the deviation of one seed is undefined."""
    by_seed = np.array(values, np.float64)
    return float(by_seed.mean()), float(by_seed.std(ddof=1)) if len(by_seed) > 1 else float("nan")


def with_interval(estimate: Sequence[float], decimals: int = 3) -> str:
    """A table's cell for a value and its interval.

    >>> with_interval((0.5, 0.25, 0.75), 2), with_interval((float("nan"), 0.0, 0.0))
    ('0.50 [0.25, 0.75]', '–')
    """
    value, low, high = estimate
    return "–" if np.isnan(value) else f"{value:.{decimals}f} [{low:.{decimals}f}, {high:.{decimals}f}]"


def percent(estimate: Sequence[float]) -> str:
    """The same in percent, with one decimal."""
    return with_interval([100 * number for number in estimate], 1)


def learning_rates(settings: Mapping[str, Any]) -> list[str | None]:
    """Those of the model and of its head, for a table; None where there is none."""
    names = ("learning_rate", "head_learning_rate")
    return [f"{settings[name]:g}" if settings.get(name) else None for name in names]
