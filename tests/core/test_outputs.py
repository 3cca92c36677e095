"""What the columns of logits mean: exclusive classes, labels that are questions of their own, or plain values."""

import pytest
import torch

from troth.core import outputs
from troth.core.errors import TrothError

LOGITS = torch.tensor([[0.0, 2.0, -1.0], [3.0, 1.0, 3.5]])


def test_classes_share_a_softmax_bit_for_bit():
    assert torch.equal(outputs.probabilities(LOGITS, "classes"), LOGITS.softmax(-1))
    assert torch.equal(outputs.log_probabilities(LOGITS, "classes"), LOGITS.log_softmax(-1))
    assert outputs.strongest(LOGITS, "classes").tolist() == outputs.decisions(LOGITS, "classes", 0).tolist() == [1, 2]


def test_each_label_has_a_sigmoid_of_its_own():
    expected = 1 / (1 + torch.exp(-LOGITS))
    assert torch.allclose(outputs.probabilities(LOGITS, "labels"), expected)
    assert torch.allclose(outputs.log_probabilities(LOGITS, "labels"), expected.log())
    assert torch.isfinite(outputs.log_probabilities(torch.tensor([[-500.0]]), "labels")).all()
    assert outputs.strongest(LOGITS, "labels").tolist() == [1, 2]


def test_a_label_is_decided_by_the_threshold_alone():
    assert outputs.decisions(LOGITS, "labels", 1).tolist() == [1, 1]
    assert outputs.decisions(LOGITS, "labels", 1, threshold=0.8).tolist() == [1, 0]  # sigmoid(1) = 0.73
    assert outputs.decisions(LOGITS, "labels", 0).tolist() == [0, 1]  # exactly 0.5 is not above it


def test_values_are_themselves_and_decide_nothing():
    assert outputs.probabilities(LOGITS, "values") is LOGITS
    assert outputs.log_probabilities(LOGITS, "values") is LOGITS
    assert outputs.strongest(LOGITS, "values").tolist() == [0, 0]  # the whole comes first
    with pytest.raises(TrothError, match="a model that gives values decides nothing"):
        outputs.decisions(LOGITS, "values", 0)


@pytest.mark.parametrize(
    ("of", "meaning", "expected"),
    [
        ("logit", "labels", [2.0, 1.0]),
        ("probability", "labels", [0.880797, 0.731059]),
        ("log_probability", "labels", [-0.126928, -0.313262]),
        ("largest_logit", "labels", [2.0, 1.0]),  # no label competes with another
        ("largest_logit", "classes", [2.0, 3.5]),
        ("probability", "values", [2.0, 1.0]),
        ("log_probability", "values", [2.0, 1.0]),
    ],
)
def test_what_is_explained(of, meaning, expected):
    target, none = torch.tensor([1, 1]), torch.tensor([-1, -1])
    value = outputs.value_of(of, LOGITS, target, none, meaning)
    assert value.tolist() == pytest.approx(expected, abs=1e-6)
    against = outputs.value_of("logit", LOGITS, target, torch.tensor([0, 0]), meaning)
    assert of == "largest_logit" or against.tolist() == [2.0, -2.0]
