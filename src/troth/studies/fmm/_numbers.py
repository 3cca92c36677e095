"""From stored scores to curves and the areas between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from troth.core.types import Score
from troth.metrics import formulas
from troth.metrics.formulas import Floats
from troth.metrics.recursive_erasure import RecursiveErasure
from troth.performance import indicators, performance

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
