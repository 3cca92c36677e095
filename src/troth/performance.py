"""Agreement of predictions with labels, computed from weighted counts, so that a bootstrap over examples is one matrix
product.

Definitions follow scikit-learn: macro-F1 is the mean over classes that occur among labels or predictions, micro-F1
pools all classes (for single-label data it equals accuracy), and Matthews is the multi-class coefficient, 0 if labels
or predictions are constant. Without examples, all of them are NaN.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from troth.core import catalog
from troth.core.errors import unknown
from troth.data import Data
from troth.statistics import Floats

Performance = Literal["accuracy", "macro_f1", "micro_f1", "matthews"]
NAMES = ("accuracy", "macro_f1", "micro_f1", "matthews")


def performance_of(data: Data) -> Performance | None:
    """The performance metric of this data set, or None if it is accuracy or unknown."""
    name = data.name.partition("(")[0]
    metric: Performance = catalog.find("data", name).metric if name in catalog.names("data") else "accuracy"
    return None if metric == "accuracy" else metric


def indicators(labels: ArrayLike, predictions: ArrayLike, classes: int) -> Floats:
    """Whether each class is correctly predicted, predicted, and true: [examples], [examples, ...] -> [examples, ..., 3,
    classes]

    `performance` accepts any weighted mean of these over the examples.
    """
    predicted = np.asarray(predictions)
    true = np.asarray(labels).reshape(-1, *[1] * (predicted.ndim - 1))
    names = np.arange(classes)
    is_predicted = predicted[..., None] == names
    is_true = np.broadcast_to(true[..., None] == names, is_predicted.shape)
    return np.stack([is_predicted & is_true, is_predicted, is_true], axis=-2).astype(np.float64)


def performance(name: Performance, counts: Floats) -> Floats:
    """Computes the metric from counts of `indicators`: [..., 3, classes] -> [...]"""
    if name not in NAMES:
        raise unknown("performance", name, NAMES)
    hit, predicted, true = np.moveaxis(counts, -2, 0)
    total = true.sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        if name == "macro_f1":
            either = predicted + true
            occurs = either > 0
            f1 = np.where(occurs, 2 * hit / np.where(occurs, either, 1), 0.0)
            return np.asarray(f1.sum(-1) / occurs.sum(-1))
        if name == "matthews":
            agreement = hit.sum(-1) * total - (predicted * true).sum(-1)
            spread = (total**2 - (predicted**2).sum(-1)) * (total**2 - (true**2).sum(-1))
            # Rounding may leave a tiny nonzero value if one side is constant.
            constant = spread <= 1e-12 * total**4
            value = np.where(constant, 0.0, agreement / np.sqrt(np.where(constant, 1.0, spread)))
            return np.where(total > 0, value, np.nan)
        return np.asarray(hit.sum(-1) / total)
