import numpy as np
import pytest

from asking import Additive, score
from fakes import Lookup, encoder
from troth import explain, measure

MODEL = Lookup({"a b c d": [0, np.log(3)], "[M] b c d": [np.log(3), 0], "a b c [M]": [0, 0]})


def test_by_hand():
    # log 1/4 − log 3/4
    assert score(MODEL, "a b c d", [4, 1, 2, 3], "log_odds(ratio=0.25)").value == pytest.approx(-np.log(3))
    found = score(MODEL, "a b c d", [1, 2, 3, 4], "log_odds(ratio=0.25)")
    assert found.value == pytest.approx(np.log(0.5) - np.log(0.75))
    assert found.record["log_p_full"] == pytest.approx(np.log(0.75))
    assert score(MODEL, "a b c d", [4, 1, 2, 3], "log_odds").value == 0.0  # 20 % of 4 units: nothing is masked


def test_a_class_too_unlikely_for_a_probability_stays_finite():
    model = Additive({"great": 400.0}, bias=-200.0)
    # p falls from 1 to exp(−200), which single precision calls 0
    found = score(model, "a great film", [0, 1, 0], "log_odds(ratio=0.4)")
    assert found.value == pytest.approx(-200, rel=1e-6)


def test_it_is_the_difference_of_log_softmax():
    model = encoder("roberta")
    attributions = explain(model, ["a good film with a great cast"], "leave_one_out")
    (found,) = measure(model, attributions, "log_odds(ratio=0.3)")
    (plain,) = measure(model, attributions, "comprehensiveness(ratio=0.3, masking=mask_token)")
    expected = np.log(plain.record["p_erased"][0]) - np.log(plain.record["p_full"])
    assert found.value == pytest.approx(expected, abs=1e-6)
