import numpy as np
import pytest

from asking import score
from fakes import Lookup
from troth.core.errors import TrothError
from troth.metrics.sparsity import Sparsity

MODEL = Lookup({"a b c d e": [0, 1], "": [0, 0]})
SCORES = [1, -5, 2, 0, 2]  # |scores| sorted: 5 2 2 1 0, total 10


def test_by_hand():
    assert score(MODEL, "a b c d e", SCORES, "sparsity").value == pytest.approx(0.5)  # one of five
    assert score(MODEL, "a b c d e", SCORES, "sparsity(ratio=0.5)").value == pytest.approx(0.7)  # two of five
    assert score(MODEL, "a b c d e", SCORES, "sparsity(ratio=0.5, variant=released)").value == pytest.approx(0.9)
    assert score(MODEL, "a b c d e", SCORES, "sparsity(top=3)").value == pytest.approx(0.9)
    assert score(MODEL, "a b c d e", SCORES, "sparsity(top=50)").value == 1
    assert score(MODEL, "a b c d e", SCORES, "sparsity(top=0)").value == 0


def test_the_summary_has_both_curves():
    found = score(MODEL, "a b c d e", SCORES, "sparsity")
    even = score(MODEL, "a b c d e", [1, 1, 1, 1, 1], "sparsity")
    summary = Sparsity().summarize([found, even])
    assert summary.value == pytest.approx((0.5 + 0.2) / 2)
    assert summary.extra["by_top"][:3] == pytest.approx([0.35, 0.55, 0.75])
    assert summary.extra["by_ratio"] == pytest.approx([0, 0.35, 0.35, 0.55, 0.55, 0.75, 0.75, 0.9, 0.9, 1])


def test_undefined_and_errors():
    assert score(MODEL, "a b c d e", [0] * 5, "sparsity").why == "all scores are 0"
    assert score(MODEL, "", [], "sparsity").why == "the text has no units"
    assert np.isnan(Sparsity().summarize([score(MODEL, "", [], "sparsity")]).value)
    assert Sparsity.higher_is_better is None
    with pytest.raises(TrothError, match="top counts units, so it cannot be -1"):
        Sparsity(top=-1)
