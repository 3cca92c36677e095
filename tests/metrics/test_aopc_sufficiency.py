import numpy as np
import pytest

from asking import score
from fakes import Lookup

HIGH, EVEN, LOW = [0, np.log(3)], [0, 0], [np.log(3), 0]
MODEL = Lookup({"a b c d e": HIGH, "": LOW, "a": EVEN, "a b": HIGH})


def test_by_hand():
    # Nothing kept three times (3/4 − 1/4), one unit (3/4 − 1/2), two units (0)
    found = score(MODEL, "a b c d e", [5, 4, 3, 2, 1], "aopc_sufficiency")
    assert found.value == pytest.approx((3 * 0.5 + 0.25) / 5)
    assert found.record["p_kept"] == pytest.approx([0.25, 0.25, 0.25, 0.5, 0.75])
