import numpy as np
import pytest

from asking import score
from fakes import Lookup

MODEL = Lookup({"a b c d e": [0, np.log(3)], "[M] b c d e": [0, 0], "[M] [M] c d e": [np.log(3), 0]})


def test_by_hand():
    found = score(MODEL, "a b c d e", [5, 4, 3, 2, 1], "aopc_log_odds")
    assert found.value == pytest.approx((np.log(0.5 / 0.75) + np.log(0.25 / 0.75)) / 5)
    assert found.record["log_p_erased"][-1] == pytest.approx(np.log(0.25))
