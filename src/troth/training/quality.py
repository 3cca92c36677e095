"""The predictions of a classifier on whole examples, and its scores: the data set's metric and the loss."""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core.types import Encoding, Example, Question
from troth.engine.answers import Answers
from troth.engine.prober import Prober
from troth.engine.probes import Probe, keep_all
from troth.engine.routines import Routine
from troth.models import TextClassifier
from troth.performance import indicators, performance
from troth.statistics import Floats
from troth.training.settings import Metric, Settings


def predict(model: TextClassifier, examples: Iterable[Example]) -> Tensor:
    """[examples, classes] logits."""
    return logits_of(model, model.encode(examples, "word"))


def logits_of(model: TextClassifier, encodings: Iterable[Encoding]) -> Tensor:
    """[examples, classes] of whole examples as the model reads them."""
    found = list(Prober(model).run(_logits(encoding) for encoding in encodings))
    return torch.stack(found) if found else torch.zeros(0, len(model.labels))


def _logits(encoding: Encoding) -> Routine[Tensor]:
    question = Question(encoding, 0)
    answers: Answers = yield Probe(question, keep_all(question))
    return answers.logits[0]


def quality(metric: Metric, logits: Tensor, labels: Tensor) -> float:
    """The metric of some predictions, higher is better; NaN where it is undefined.

    >>> quality("accuracy", torch.tensor([[2.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1]))
    0.5
    """
    gold = labels.numpy()
    if metric == "auroc":
        return _auroc(logits.double().softmax(-1).numpy(), gold)
    classes = int(max(logits.shape[-1], gold.max(initial=-1) + 1))
    return float(performance(metric, indicators(gold, logits.argmax(-1).numpy(), classes).sum(0)))


def majority(metric: Metric, training: Tensor, labels: Tensor, classes: int) -> float:
    """What always answering the class most frequent in training scores."""
    answer = torch.zeros(len(labels), classes)
    answer[:, int(torch.bincount(training, minlength=classes).argmax())] = 1
    return quality(metric, answer, labels)


def judge(
    settings: Settings, found: Mapping[str, Tensor], deciding: Collection[str], labels: Tensor
) -> tuple[dict[str, Any], float]:
    """Scores of an epoch on each set of inputs and on the deciding ones together: the best epoch has most of that."""
    together = scores(settings, torch.cat([found[name] for name in deciding]), labels.repeat(len(deciding)))
    value = {"metric": together[settings.metric], "loss": -together["loss"], "last": math.inf}[settings.best_by]
    by_set = {name: scores(settings, logits, labels) for name, logits in found.items()}
    entry = {"score": together[settings.metric], "validation": by_set}
    return entry, -math.inf if math.isnan(value) else value


def is_better(settings: Settings, value: float, best: float, best_epoch: int) -> bool:
    """Whether an epoch takes the place of the best one; the earlier of two equals stays."""
    return value > best or best_epoch == 0 or settings.best_by == "last"


def is_settled(settings: Settings, best: float) -> bool:
    """Whether no later epoch can be better than the best: every metric ends at 1, and the earlier of equals stays."""
    return settings.best_by == "metric" and best >= 1


def scores(settings: Settings, logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Every metric and the loss; the settings' first."""
    names = dict.fromkeys((settings.metric, *get_args(Metric)))
    loss = float(torch.nn.functional.cross_entropy(logits.double(), labels))
    return {**{name: quality(name, logits, labels) for name in names}, "loss": loss}


def _auroc(probabilities: Floats, gold: NDArray[np.int64]) -> float:
    from sklearn.metrics import roc_auc_score  # importing it takes a second, which explaining a text does not need

    present: list[int] = np.unique(gold).tolist()
    if len(present) < 2:
        return float("nan")
    if probabilities.shape[1] == 2:
        return float(roc_auc_score(gold, probabilities[:, 1]))
    # One class against the rest, averaged over the classes that are there.
    return float(np.mean([roc_auc_score(gold == index, probabilities[:, index]) for index in present]))
