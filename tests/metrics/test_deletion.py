import numpy as np
import pytest

from asking import score
from fakes import Lookup, encoder
from troth import explain, measure
from troth.core.errors import TrothError
from troth.metrics.deletion import Deletion

HIGH, EVEN, LOW = [0, np.log(3)], [0, 0], [np.log(3), 0]
MODEL = Lookup({"a b c": HIGH, "[M] b c": EVEN, "[M] [M] c": EVEN, "[M] [M] [M]": LOW})


def test_by_hand():
    # p = 3/4, 1/2, 1/2, 1/4 at thirds
    found = score(MODEL, "a b c", [3, 2, 1], "deletion")
    assert found.value == pytest.approx((0.75 / 2 + 0.5 + 0.5 + 0.25 / 2) / 3)
    assert found.record["ratios"] == pytest.approx([0, 1 / 3, 2 / 3, 1])


def test_the_last_step_may_be_shorter_and_the_area_knows():
    found = score(MODEL, "a b c", [3, 2, 1], "deletion(step=0.67)")  # two units, then one
    assert found.record["ratios"] == pytest.approx([0, 2 / 3, 1])
    assert found.value == pytest.approx(2 / 3 * (0.75 + 0.5) / 2 + 1 / 3 * (0.5 + 0.25) / 2)


def test_it_mirrors_insertion_of_the_reversed_order():
    model = encoder("bert")
    attributions = explain(model, ["a good film with a great cast"], "gradient")
    (going,) = measure(model, attributions, "deletion")
    reversed_scores = -attributions[0].scores
    coming = score(model, "a good film with a great cast", reversed_scores, "insertion", target=attributions[0].target)
    assert going.value == pytest.approx(coming.value, abs=1e-6)


def test_errors_and_undefined():
    assert np.isnan(score(Lookup({"": LOW}), "", [], "deletion").value)
    with pytest.raises(TrothError, match="deletion: step must be above 0"):
        Deletion(step=0.0)
