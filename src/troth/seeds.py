"""What counts as one observation: scores are averaged over an example's seeds, then over its cluster, then compared.

Another seed is not another example, and neither is another copy of a text or another sentence of a document: those form
one cluster (`core/copies.py`). Tests, intervals, letters and rankings are computed over clusters, from the result of
`mean_over_seeds`; the variation between seeds is reported separately, by `spread`. If seeds are separate trainings, and
so random themselves, `over_seeds` and `difference` treat them as a random sample too, crossed with the examples.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from troth import statistics
from troth.core.copies import Ints
from troth.statistics import Floats


def mean_over_seeds(by_seed: ArrayLike, clusters: Ints | None = None) -> Floats:
    """[seeds, examples] -> [examples]: each example's mean over the seeds that define it; NaN if none does.

    With a cluster index per example: -> [clusters], the mean over the examples of each cluster, all weighted equally.

    >>> mean_over_seeds([[0.0, 0.5, float("nan")], [1.0, float("nan"), float("nan")]])
    array([0.5, 0.5, nan])
    >>> mean_over_seeds([[0.0, 1.0, 0.25], [1.0, 1.0, 0.25]], np.array([0, 0, 1]))
    array([0.75, 0.25])
    """
    return mean_over_clusters(_mean(np.asarray(by_seed, np.float64)), clusters)


def mean_over_clusters(values: ArrayLike, clusters: Ints | None) -> Floats:
    """[examples, …] -> [clusters, …]: the mean over the defined examples of each cluster."""
    each = np.asarray(values, np.float64)
    # One example per cluster, in order.
    if clusters is None or len(clusters) == 0 or clusters.max() + 1 == len(clusters):
        return each
    order = np.argsort(clusters, kind="stable")
    starts = np.flatnonzero(np.diff(clusters[order]))
    return np.stack([_mean(part) for part in np.split(each[order], starts + 1)])


def _mean(values: Floats) -> Floats:
    """The mean of the defined values over the first axis."""
    defined = ~np.isnan(values)
    count = defined.sum(0)
    with np.errstate(invalid="ignore"):
        mean = np.where(defined, values, 0.0).sum(0) / np.where(count, count, np.nan)
    # The mean of equal values is exactly that value: rounding must not break ties between examples.
    low, high = np.fmin.reduce(values), np.fmax.reduce(values)
    return np.asarray(np.where(low == high, low, mean))


def spread(by_seed: ArrayLike) -> float:
    """Standard deviation of the seeds' means, over the examples that all seeds define; NaN with one seed."""
    values = np.asarray(by_seed, np.float64)
    shared = values[:, ~np.isnan(values).any(0)]
    return float(shared.mean(1).std(ddof=1)) if len(values) > 1 and shared.size else float("nan")


def over_seeds(values_by_seed: Sequence[ArrayLike]) -> tuple[float, float, float]:
    """(value, low, high) of the mean over examples and seeds, both random samples; seeds without values are ignored."""
    return statistics.crossed_mean(values_by_seed)[:3]


def difference(first: Sequence[ArrayLike], second: Sequence[ArrayLike]) -> statistics.CrossedMean:
    """By how much the first exceeds the second on the same examples, seed by seed; ignores seeds that either lacks."""
    pairs = [pair for pair in zip(first, second, strict=True) if all(map(np.size, pair))]
    return statistics.crossed_mean([np.subtract(*pair) for pair in pairs])


def per_example(values_by_seed: Sequence[ArrayLike]) -> Floats:
    """[examples] The mean over the seeds that have any values; a seed has none if its training failed."""
    seeds = [np.asarray(values, np.float64) for values in values_by_seed if np.size(values)]
    return mean_over_seeds(np.array(seeds)) if seeds else np.empty(0)
