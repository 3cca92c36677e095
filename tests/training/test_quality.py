import math

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, matthews_corrcoef

from troth.training.quality import is_better, judge, majority, quality
from troth.training.settings import settings

LOGITS = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 3.0, 0.0], [1.0, 0.0, 0.5]])
GOLD = torch.tensor([0, 1, 0, 2])  # predicted: 0, 1, 1, 0


def test_metrics_by_hand():
    assert quality("accuracy", LOGITS, GOLD) == quality("micro_f1", LOGITS, GOLD) == 0.5
    # F1 of class 0: 2·1/(2 + 1 + 1); of class 1: 2·1/(2 + 1 + 0); of class 2: 0.
    assert quality("macro_f1", LOGITS, GOLD) == pytest.approx((0.5 + 2 / 3 + 0) / 3)
    binary, gold = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0], [0.0, 3.0]]), torch.tensor([0, 1, 0, 1])
    # Of the four pairs of a positive and a negative, three are in order.
    assert quality("auroc", binary, gold) == pytest.approx(0.75)
    assert quality("matthews", binary, gold) == pytest.approx((2 * 1 - 1 * 0) / math.sqrt(3 * 2 * 2 * 1))


def test_what_one_class_or_no_example_scores():
    one = torch.tensor([[1.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 0])
    assert [quality(metric, *one) for metric in ("accuracy", "macro_f1", "micro_f1", "matthews")] == [1, 1, 1, 0]
    none = torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64)
    for metric in ("accuracy", "macro_f1", "micro_f1", "matthews"):
        assert math.isnan(quality(metric, *none))


@pytest.mark.parametrize("classes", [2, 3, 12])
def test_the_same_to_the_last_bit_as_scikit_learn(classes):
    generator = np.random.default_rng(classes)
    for _ in range(20):
        gold = generator.integers(0, classes, 40)
        logits = generator.normal(size=(40, classes)) + 2 * np.eye(classes)[gold]
        found = [quality(metric, torch.tensor(logits), torch.tensor(gold)) for metric in ("macro_f1", "matthews")]
        predicted = logits.argmax(-1)
        assert found == [f1_score(gold, predicted, average="macro"), matthews_corrcoef(gold, predicted)]


def test_auroc_of_several_classes_is_each_against_the_rest():
    generator = np.random.default_rng(0)
    logits, gold = torch.tensor(generator.normal(size=(40, 3))), torch.tensor(generator.integers(0, 3, 40))
    p = logits.softmax(-1).numpy()
    values = []
    for one in range(3):
        inside, outside = p[gold.numpy() == one, one], p[gold.numpy() != one, one]
        values.append(np.mean(inside[:, None] > outside[None]))
    assert quality("auroc", logits, gold) == pytest.approx(np.mean(values))
    assert math.isnan(quality("auroc", logits, torch.zeros(40, dtype=torch.int64)))


def test_the_majority_is_that_of_training():
    training, gold = torch.tensor([1, 1, 0]), torch.tensor([0, 0, 0, 1])
    assert majority("accuracy", training, gold, 2) == 0.25


def test_an_epoch_is_judged_on_all_sets_together():
    found = {"unmasked": LOGITS, "masked": LOGITS.flip(-1)}  # flipped predictions: 2, 1, 1, 2
    entry, value = judge(settings(), found, found, GOLD)
    assert entry["validation"]["unmasked"]["accuracy"] == 0.5
    assert entry["validation"]["masked"]["accuracy"] == 0.5
    both = torch.cat([LOGITS, LOGITS.flip(-1)])
    assert value == entry["score"] == quality("accuracy", both, GOLD.repeat(2))
    _, value = judge(settings(metric="macro_f1"), found, found, GOLD)
    assert value == quality("macro_f1", both, GOLD.repeat(2))  # not the mean of the two
    _, loss = judge(settings(best_by="loss"), found, found, GOLD)
    assert loss == pytest.approx(-float(torch.nn.functional.cross_entropy(both, GOLD.repeat(2))))


def test_only_deciding_sets_decide():
    found = {"unmasked": LOGITS, "all_masked": torch.zeros_like(LOGITS)}
    entry, value = judge(settings(), found, ["unmasked"], GOLD)
    assert value == entry["score"] == quality("accuracy", LOGITS, GOLD)
    assert entry["validation"]["all_masked"]["accuracy"] == quality("accuracy", torch.zeros_like(LOGITS), GOLD)


def test_the_first_of_equals_and_anything_over_nothing_is_better():
    chosen = settings()
    assert is_better(chosen, -math.inf, -math.inf, 0)
    assert not is_better(chosen, 0.5, 0.5, 1)
    assert is_better(settings(best_by="last"), 0.1, 0.9, 3)
    undefined = {"unmasked": torch.zeros(2, 2)}
    assert judge(settings(metric="auroc"), undefined, undefined, torch.tensor([0, 0]))[1] == -math.inf
