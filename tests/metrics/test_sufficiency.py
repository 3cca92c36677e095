import numpy as np
import pytest

from asking import score
from fakes import Lookup

HIGH, EVEN, LOW = [0, np.log(3)], [0, 0], [np.log(3), 0]
MODEL = Lookup({"a b c d": HIGH, "d": EVEN, "c d": HIGH, "a d": LOW, "": LOW, "[M] [M] [M] d": LOW})


def test_by_hand():
    assert score(MODEL, "a b c d", [1, 2, 3, 4], "sufficiency(ratio=0.25)").value == pytest.approx(0.25)  # 3/4 − 1/2
    assert score(MODEL, "a b c d", [1, 2, 3, 4], "sufficiency(ratio=0.5)").value == pytest.approx(0.0)
    found = score(MODEL, "a b c d", [3, 2, 1, 4], "sufficiency(ratio=0.5)")
    assert found.value == pytest.approx(0.5)
    assert found.record["p_kept"] == pytest.approx([0.25])
    assert score(MODEL, "a b c d", [1, 2, 3, 4], "sufficiency(ratio=0.25, masking=mask_token)").value == pytest.approx(
        0.5
    )


def test_on_a_short_text_a_small_share_keeps_nothing():
    found = score(MODEL, "a b c d", [1, 2, 3, 4], "sufficiency")  # 20 % of 4 units: none
    assert found.value == pytest.approx(0.5)  # 3/4 − what the empty text gets
    assert found.record["counts"] == [0]


def test_a_text_without_units_is_undefined():
    found = score(MODEL, "", [], "sufficiency")
    assert np.isnan(found.value)
    assert found.why == "the text has no units"
