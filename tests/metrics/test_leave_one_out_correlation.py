import warnings

import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr

from asking import score
from fakes import CORPUS, Lookup, encoder
from troth import explain, measure

MODEL = Lookup(
    {"a b c": [0, 3], "[M] b c": [0, 0], "a [M] c": [0, 2], "a b [M]": [0, 1]}
)  # logits of black boxes: log p


def test_by_hand():
    # a matters most, then c, then b
    assert score(MODEL, "a b c", [9, 0.1, 0.2], "leave_one_out_correlation").value == pytest.approx(1)
    assert score(MODEL, "a b c", [9, 2, 1], "leave_one_out_correlation").value == pytest.approx(
        1 / 3
    )  # one pair of three
    assert score(MODEL, "a b c", [-9, 2, 1], "leave_one_out_correlation").value == pytest.approx(-1)


def test_leave_one_out_agrees_with_itself_and_others_as_scipy_says():
    model = encoder("distilbert")
    truth = explain(model, CORPUS, "leave_one_out")
    assert [one.value for one in measure(model, truth, "leave_one_out_correlation")] == pytest.approx(
        [1.0] * len(CORPUS)
    )
    given = explain(model, CORPUS, "gradient")
    for metric, correlation in (("", kendalltau), ("(kind=pearson)", pearsonr)):
        found = measure(model, given, f"leave_one_out_correlation{metric}")
        expected = [correlation(one.scores, two.scores).statistic for one, two in zip(given, truth, strict=True)]
        assert [one.value for one in found] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", ["kendall", "pearson"])
def test_undefined(kind):
    model = Lookup({"": [0, 0], "a": [0, 1], "[M]": [0, 0], "a b": [0, 1], "[M] b": [0, 0], "a [M]": [0, 0.5]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text, scores, why in (
            ("", [], "the text has no units"),
            ("a", [1.0], "a correlation needs two units"),
            ("a b", [1.0, 1.0], "all scores are equal"),
        ):
            found = score(model, text, scores, f"leave_one_out_correlation(kind={kind})")
            assert np.isnan(found.value)
            assert found.why == why
