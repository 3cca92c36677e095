"""From stored scores to curves, areas and ranges over seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from troth import statistics
from troth.core.types import Score
from troth.metrics import formulas
from troth.metrics.formulas import Floats
from troth.metrics.recursive_erasure import RecursiveErasure
from troth.performance import indicators, performance

Range = tuple[float, float, float]  # value, low, high
INTERVAL = "Intervals: 95 %, BCa over seeds, as in the paper."


def curves(scores: Sequence[Score], metric: RecursiveErasure) -> tuple[Floats, Floats]:
    """[ratios] performance erased in the order explained and at random; NaN where there are no scores."""
    records = [score.record for score in scores if not np.isnan(score.value)]
    if not records:
        return np.full(len(metric.points), np.nan), np.full(len(metric.points), np.nan)
    labels = np.array([record["label"] for record in records])
    predictions = np.array([[record["explained"], record["random"]] for record in records])
    counts = indicators(labels, predictions, int(max(labels.max(), predictions.max())) + 1).mean(0)
    explained, random = performance(metric.performance or "accuracy", counts)
    return explained, random


def areas(scores: Sequence[Score], metric: RecursiveErasure) -> tuple[float, float]:
    """ACU and RACU of one seed."""
    ratios = np.array(metric.points) / 10_000
    both = curves(scores, metric)
    return float(formulas.acu(ratios, *both)), float(formulas.racu(ratios, *both))


def over_seeds(values: Sequence[float]) -> Range:
    """Mean and 95 % interval over seeds, as the paper's; undefined ones do not count."""
    known = np.array([value for value in values if not np.isnan(value)], np.float64)
    if not len(known):
        return np.nan, np.nan, np.nan
    low, high = statistics.bca_interval(known)
    return float(known.mean()), float(low), float(high)


def percent(value: Range) -> str:
    """A range in percent as text.

    >>> percent((0.9, 0.85, 0.925)), percent((float("nan"),) * 3)
    ('90.0 [85.0, 92.5]', '–')
    """
    if np.isnan(value[0]):
        return "–"
    return f"{100 * value[0]:.1f} [{100 * value[1]:.1f}, {100 * value[2]:.1f}]"


def mean(values: Sequence[float]) -> float:
    """Of what is defined; NaN where nothing is."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def mean_curve(found: Sequence[Floats]) -> Floats:
    """[ratios] over seeds; empty where there are none."""
    return np.mean(found, axis=0) if found else np.empty(0)
