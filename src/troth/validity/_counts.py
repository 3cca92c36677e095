"""The arithmetic of MaSF: counts how many references are smaller than each value, and combines many counts into a
statistic.

Statistics have many ties, which rounding would break. So a p-value min(c, N − c) / N is kept as the integer min(c, N −
c) until one division (Simes) or one exactly rounded sum (Fisher) turns it into a statistic.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
import scipy.stats
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int32]
Aggregation = Literal["simes", "fisher"]

_COLUMNS_AT_ONCE = 64
_ROWS_AT_ONCE = 1024


def join_layers(aggregation: Aggregation, distributions: Floats, by_layer: Floats, others: int) -> Floats:
    """Combines statistics [layers, examples] into one per example; large values are unusual."""
    pairs = zip(distributions, by_layer, strict=True)
    smaller = [np.searchsorted(references, values, side="left") for references, values in pairs]
    joined = aggregate(aggregation, np.stack(smaller, axis=-1), others, references=distributions.shape[-1])
    return -joined if aggregation == "simes" else joined  # small Simes statistics are the unusual ones


def sort(columns: NDArray[Any], ordered: NDArray[Any]) -> Counts:
    """Fills `ordered` [hidden, examples] with the sorted columns of [examples, hidden]; returns how many are smaller
    than each.
    """
    examples, hidden = columns.shape
    counts = np.empty((examples, hidden), np.int32)
    for start in range(0, hidden, _COLUMNS_AT_ONCE):
        some = slice(start, start + _COLUMNS_AT_ONCE)
        block = np.ascontiguousarray(columns[:, some].T)
        ordered[some] = np.sort(block, axis=-1)
        counts[:, some] = scipy.stats.rankdata(block, method="min", axis=-1).T - 1
    return counts


def search(ordered: NDArray[Any], columns: NDArray[Any]) -> Counts:
    """How many sorted references [hidden, references] are smaller than each of the columns [examples, hidden]."""
    smaller = np.empty(columns.shape[::-1], np.int32)
    for references, values, counts in zip(ordered, np.ascontiguousarray(columns.T), smaller, strict=True):
        counts[:] = np.searchsorted(references, values, side="left")
    return np.ascontiguousarray(smaller.T)


def each_layer(layers: int, work: Callable[[int], Floats]) -> Floats:
    # Sorting and searching release the GIL; four layers at a time limit the memory.
    with ThreadPoolExecutor(max_workers=4) as pool:
        return np.stack(list(pool.map(work, range(layers))))


def aggregate(aggregation: Aggregation, smaller: NDArray[Any], others: int, references: int) -> Floats:
    """Combines counts of smaller references, [examples, tests], into one two-sided statistic per example."""
    counts = np.minimum(smaller, others - smaller).astype(np.int32, copy=False)
    parts = [counts[start : start + _ROWS_AT_ONCE] for start in range(0, len(counts), _ROWS_AT_ONCE)]
    return np.concatenate([AGGREGATIONS[aggregation](part, references) for part in parts] or [np.empty(0)])


def _simes(counts: Counts, references: int) -> Floats:
    """min m₍ᵢ₎·n/i, which is the statistic times the number of references, so that only one division rounds."""
    tests = counts.shape[-1]
    ranked = np.sort(counts, axis=-1).astype(np.float64) * tests / np.arange(1, tests + 1)
    return np.asarray(ranked.min(-1))


def _fisher(counts: Counts, references: int) -> Floats:
    """−2 Σ log(m/N + 1e-8); fsum rounds once, so equal counts give equal sums in any order."""
    logs = np.array([math.log(count / references + 1e-8) for count in range(references // 2 + 1)])
    return -2 * np.array([math.fsum(row) for row in logs[counts].tolist()])


AGGREGATIONS: dict[str, Callable[[Counts, int], Floats]] = {"simes": _simes, "fisher": _fisher}
