"""The agreement of a metric's ranking of the explanations of one text with the truth; all arrays are [texts,
explanations].

Values are rounded, so that differences from rounding errors are ties; NaN, which is undefined, orders nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from troth.statistics import Floats

_DECIMALS = 5  # decimals; a model's probabilities are no more precise


class Agreement(NamedTuple):
    """[texts] each; NaN where the truth does not order any explanations."""

    tau: Floats  # Kendall's τ-b; 0 if the metric orders no pair
    ordered: Floats  # share of the pairs ordered by the truth that the metric orders the same way; a tie counts half


def agreement(values: Floats, quality: Floats) -> Agreement:
    """Of values, higher is better, with the quality of the explanations.

    >>> agreement(np.array([[3.0, 2.0, 2.0]]), np.array([[1.0, 0.5, 0.2]])).ordered.round(3).tolist()
    [0.833]
    """
    first, second = np.triu_indices(values.shape[1], 1)
    rounded, real = np.round(values, _DECIMALS), np.round(quality, _DECIMALS)
    found = np.nan_to_num(np.sign(rounded[:, first] - rounded[:, second]))  # an undefined value orders nothing
    truth = np.sign(real[:, first] - real[:, second])
    alike, of_truth, of_metric = (found * truth).sum(1), np.square(truth).sum(1), np.square(found).sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        tau = np.where(of_metric == 0, 0.0, alike / np.sqrt(of_truth * of_metric))
        return Agreement(np.where(of_truth == 0, np.nan, tau), (alike / of_truth + 1) / 2)


def won(values: Floats, other: Floats) -> Floats:
    """How often the first is higher; a tie counts half, an undefined pair is NaN."""
    return np.asarray((np.sign(np.round(values, _DECIMALS) - np.round(other, _DECIMALS)) + 1) / 2)
