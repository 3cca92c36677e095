import numpy as np
import pytest

from asking import score
from fakes import Lookup
from troth.models.black_box import BlackBox

HIGH, EVEN, LOW = [0, np.log(3)], [0, 0], [np.log(3), 0]
MODEL = Lookup(
    {"[M] [M] [M]": LOW, "[M] [M] c": EVEN, "[M] b c": LOW, "a b c": HIGH, "a [M] [M]": HIGH, "a b [M]": HIGH}
)


def test_by_hand():
    # The least important first: c, b, a: up, down, up
    found = score(MODEL, "a b c", [3, 2, 1], "monotonicity")
    assert found.record["p"] == pytest.approx([0.25, 0.5, 0.25, 0.75])
    assert found.value == pytest.approx(2 / 3)
    assert score(MODEL, "a b c", [3, 2, 1], "monotonicity(every=True)").value == 0
    # a, b, c: up, level, level
    assert score(MODEL, "a b c", [1, 2, 3], "monotonicity").value == 1
    assert score(MODEL, "a b c", [1, 2, 3], "monotonicity(every=True)").value == 1


def diluted(texts):
    """Class 1 as far as the planted word stands out among the words that are there."""
    rows = []
    for text in texts:
        there = [word for word in text.split() if word != "_"]
        share = 0.8 / len(there) if "awful" in there else 0.0
        rows.append([0.9 - share, 0.1 + share])
    return rows


def test_the_true_order_is_best_the_reversed_one_worst():
    model = BlackBox(diluted)
    text = "the soup was awful today"
    truth = score(model, text, [0, 0, 0, 1, 0], "monotonicity").value
    reverse = score(model, text, [0, 0, 0, -1, 0], "monotonicity").value
    middle = score(model, text, [1, 2, 0, 0.5, 0], "monotonicity").value
    assert truth == 1
    assert reverse == pytest.approx(1 / 5)  # it rises once, then every word dilutes
    assert reverse < middle < truth


def test_one_unit_and_none():
    model = Lookup({"[M]": LOW, "a": HIGH, "": LOW})
    assert score(model, "a", [1], "monotonicity").value == 1
    assert np.isnan(score(model, "", [], "monotonicity").value)
