import numpy as np
import pytest
from scipy.stats import pearsonr

from asking import score
from fakes import CORPUS, Lookup, encoder
from troth import explain, measure

HIGH, EVEN, LOW = [0, np.log(3)], [0, 0], [np.log(3), 0]
MODEL = Lookup({"a b c": HIGH, "[M] b c": LOW, "a [M] c": EVEN, "a b [M]": HIGH})


def test_by_hand():
    # Drops 1/2, 1/4, 0: a line with scores 2, 1, 0
    assert score(MODEL, "a b c", [2, 1, 0], "importance_correlation").value == pytest.approx(1)
    assert score(MODEL, "a b c", [-2, -1, 0], "importance_correlation").value == pytest.approx(-1)
    assert score(MODEL, "a b c", [0, 1, 0], "importance_correlation").value == pytest.approx(0, abs=1e-9)


def test_it_is_scipys_correlation_with_the_drop():
    model = encoder("albert")
    attributions = explain(model, CORPUS[:3], "input_x_gradient")
    drops = explain(model, CORPUS[:3], "leave_one_out(of=probability)")
    for given, drop, found in zip(
        attributions, drops, measure(model, attributions, "importance_correlation"), strict=True
    ):
        assert found.value == pytest.approx(pearsonr(given.scores, drop.scores).statistic, abs=1e-4)


@pytest.mark.parametrize(
    ("text", "scores", "why"),
    [
        ("", [], "the text has no units"),
        ("a", [1.0], "a correlation needs two units"),
        ("a b", [1.0, 1.0], "all scores are equal"),
        ("a b", [1.0, 2.0], "masking any unit changes equally much"),
    ],
)
def test_undefined(text, scores, why):
    model = Lookup({"": EVEN, "a": EVEN, "[M]": LOW, "a b": EVEN, "[M] b": LOW, "a [M]": LOW})
    found = score(model, text, scores, "importance_correlation")
    assert np.isnan(found.value)
    assert found.why == why
