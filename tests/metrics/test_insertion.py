import numpy as np
import pytest

from asking import score
from fakes import Lookup

HIGH, EVEN, LOW = [0, np.log(3)], [0, 0], [np.log(3), 0]
MODEL = Lookup({"[M] [M]": LOW, "a [M]": EVEN, "[M] b": LOW, "a b": HIGH})


def test_by_hand():
    # p = 1/4, 1/2, 3/4 at 0, 1/2, 1
    found = score(MODEL, "a b", [2, 1], "insertion")
    assert found.value == pytest.approx(0.5)
    assert found.record["p"] == pytest.approx([0.25, 0.5, 0.75])
    assert score(MODEL, "a b", [1, 2], "insertion").value == pytest.approx(0.375)  # 1/4, 1/4, 3/4
    assert score(MODEL, "a b", [1, 2], "insertion(step=1.0)").value == pytest.approx(0.5)  # at once


def test_one_unit_and_none():
    model = Lookup({"[M]": LOW, "a": HIGH, "": LOW})
    assert score(model, "a", [1], "insertion").value == pytest.approx(0.5)
    assert np.isnan(score(model, "", [], "insertion").value)
