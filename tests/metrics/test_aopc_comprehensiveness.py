import numpy as np
import pytest

from asking import score
from fakes import Lookup, encoder
from troth import explain, measure
from troth.core.errors import TrothError
from troth.metrics.aopc_comprehensiveness import AopcComprehensiveness

HIGH, EVEN, LOW = [0, np.log(3)], [0, 0], [np.log(3), 0]
MODEL = Lookup({"a b c d e": HIGH, "b c d e": EVEN, "c d e": LOW})


def test_by_hand():
    # 1, 5 and 10 % of 5 units erase nothing, 20 % one, 50 % two: (0 + 0 + 0 + 1/4 + 1/2) / 5
    found = score(MODEL, "a b c d e", [5, 4, 3, 2, 1], "aopc_comprehensiveness")
    assert found.value == pytest.approx(0.75 / 5)
    assert found.record["counts"] == [0, 0, 0, 1, 2]
    chosen = score(MODEL, "a b c d e", [5, 4, 3, 2, 1], "aopc_comprehensiveness(ratios=(0.2, 0.4))")
    assert chosen.value == pytest.approx(0.75 / 2)


def test_it_is_the_mean_of_comprehensiveness_over_the_ratios():
    model = encoder("distilbert")
    attributions = explain(model, ["the soup was cold , the service awful , the bill absurd"], "gradient")
    (found,) = measure(model, attributions, "aopc_comprehensiveness")
    singles = [
        measure(model, attributions, f"comprehensiveness(ratio={r})")[0].value for r in (0.01, 0.05, 0.1, 0.2, 0.5)
    ]
    assert found.value == pytest.approx(np.mean(singles), abs=1e-6)


def test_no_ratio_is_refused():
    with pytest.raises(TrothError, match="aopc_comprehensiveness: ratios must hold at least one"):
        AopcComprehensiveness(ratios=())
