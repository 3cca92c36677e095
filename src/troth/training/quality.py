"""How well a classifier does: the data sets' metrics and the loss, from logits and classes."""

from __future__ import annotations

import numpy as np
import torch
from sklearn import metrics
from torch import Tensor

from troth.training.settings import Metric


def quality(metric: Metric, logits: Tensor, labels: Tensor) -> float:
    """The metric of some predictions, higher is better; NaN where it is undefined.

    >>> quality("accuracy", torch.tensor([[2.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1]))
    0.5
    """
    gold = labels.numpy()
    if metric == "auroc":
        return _auroc(logits.double().softmax(-1).numpy(), gold)
    predicted = logits.argmax(-1).numpy()
    if metric == "matthews":
        return float(metrics.matthews_corrcoef(gold, predicted))
    if metric == "macro_f1":
        return float(metrics.f1_score(gold, predicted, average="macro", zero_division=0))
    # With one class a row, micro-F1 is the accuracy.
    return float((gold == predicted).mean())


def cross_entropy(logits: Tensor, labels: Tensor) -> float:
    """The mean loss."""
    return float(torch.nn.functional.cross_entropy(logits.double(), labels))


def majority(metric: Metric, training: Tensor, labels: Tensor, classes: int) -> float:
    """What always answering the class most frequent in training scores."""
    answer = torch.zeros(len(labels), classes)
    answer[:, int(torch.bincount(training, minlength=classes).argmax())] = 1
    return quality(metric, answer, labels)


def _auroc(probabilities: np.ndarray[tuple[int, int], np.dtype[np.float64]], gold: object) -> float:
    classes = probabilities.shape[1]
    if len(np.unique(np.asarray(gold))) < 2:
        return float("nan")
    if classes == 2:
        return float(metrics.roc_auc_score(gold, probabilities[:, 1]))
    # One class against the rest, averaged over the classes that are there.
    present = [index for index in np.unique(np.asarray(gold)).tolist()]
    return float(np.mean([metrics.roc_auc_score(np.asarray(gold) == one, probabilities[:, one]) for one in present]))
