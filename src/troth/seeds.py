"""Several seeds of one example are one example: scores are averaged over seeds first, then examples are compared.

One more seed is not one more example. Tests, intervals, letters and rankings are about examples and take what
`mean_over_seeds` gives; how much the seeds differ among themselves is shown apart, by `spread`. Where seeds are
trainings, and so chance of their own, `over_seeds` draws them, too, crossed with the examples.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from troth import statistics
from troth.statistics import Floats


def mean_over_seeds(by_seed: ArrayLike) -> Floats:
    """[seeds, examples] -> [examples]: each example's mean over the seeds that define it; NaN where none does.

    >>> mean_over_seeds([[0.0, 0.5, float("nan")], [1.0, float("nan"), float("nan")]])
    array([0.5, 0.5, nan])
    """
    values = np.asarray(by_seed, np.float64)
    defined = ~np.isnan(values)
    count = defined.sum(0)
    with np.errstate(invalid="ignore"):
        mean = np.where(defined, values, 0.0).sum(0) / np.where(count, count, np.nan)
    # Equal seeds have exactly their value as the mean: rounding must not break ties between examples.
    low, high = np.fmin.reduce(values), np.fmax.reduce(values)
    return np.asarray(np.where(low == high, low, mean))


def spread(by_seed: ArrayLike) -> float:
    """Standard deviation of the seeds' own means, over the examples that all of them define; NaN of one seed."""
    values = np.asarray(by_seed, np.float64)
    shared = values[:, ~np.isnan(values).any(0)]
    return float(shared.mean(1).std(ddof=1)) if len(values) > 1 and shared.size else float("nan")


def over_seeds(values_by_seed: Sequence[ArrayLike]) -> tuple[float, float, float]:
    """(value, low, high) of the mean over examples and seeds, both of them drawn; seeds without values do not count."""
    return statistics.mean(per_example(values_by_seed)), *statistics.hierarchical_interval(values_by_seed)


def per_example(values_by_seed: Sequence[ArrayLike]) -> Floats:
    """[examples] the mean over the seeds that have values at all: a training may have failed."""
    seeds = [np.asarray(values, np.float64) for values in values_by_seed if np.size(values)]
    return mean_over_seeds(np.array(seeds)) if seeds else np.empty(0)
