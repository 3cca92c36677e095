import numpy as np
import pytest
from scipy.stats import kendalltau, ranksums

from troth.core.errors import TrothError
from troth.metrics._diagnosticity import compare, diagnosticity, meta_report

nan = float("nan")


def test_diagnosticity_by_hand():
    explained = {"a": [0.5, 0.4, 0.3, nan], "b": [0.1, 0.6, 0.9, 0.9]}
    found = diagnosticity("m", explained, [0.1, 0.4, 0.6, 0.2], higher_is_better=True)
    # a: won, tied, lost, undefined; b: tied, won, won, won
    assert (found.won, found.tied, found.lost, found.undefined) == (4, 2, 1, 1)
    assert found.value == pytest.approx(4 / 7)
    assert found.advantage[0] == pytest.approx(3 / 7)
    assert found.by_explainer == {"a": pytest.approx(1 / 3), "b": pytest.approx(3 / 4)}
    lower = diagnosticity("m", explained, [0.1, 0.4, 0.6, 0.2], higher_is_better=False)
    assert (lower.won, lower.tied, lower.lost) == (1, 2, 4)


def test_the_interval_draws_examples_not_pairs():
    generator = np.random.default_rng(0)
    wins = (generator.random(80) < 0.7).astype(float)
    # Ten explainers that agree on every example hold no more than one does.
    one = diagnosticity("m", {"a": wins}, np.full(80, 0.5), True)
    ten = diagnosticity("m", {str(name): wins for name in range(10)}, np.full(80, 0.5), True)
    assert (one.low, one.high) == pytest.approx((ten.low, ten.high))
    assert one.high - one.low == pytest.approx(2 * 1.96 * np.sqrt(0.7 * 0.3 / 80), rel=0.15)


def scores_of(strengths, count=60):
    """Metrics that see the explainers' quality (0.5, 1 and 2) through noise of their own, times a strength."""
    generator = np.random.default_rng(2)
    scores = {}
    for metric, strength in strengths.items():
        for name, quality in (("random", 0.0), ("weak", 0.5), ("fair", 1.0), ("good", 2.0)):
            scores[name, metric] = strength * quality + generator.normal(size=count)
    return scores


def test_the_report_ranks_metrics_by_what_they_tell_apart():
    scores = scores_of({"blind": 0.0, "sharp": 3.0, "dim": 0.7, "reversed": -2.0})
    scores["weak", "flat"] = scores["random", "flat"] = np.zeros(60)
    report = meta_report(scores, {"blind": True, "sharp": True, "dim": True, "reversed": True, "flat": True})
    assert [one.metric for one in report.diagnosticities][:2] == ["sharp", "dim"]
    assert report.best == "sharp"
    told = {line.split()[0]: line for line in report.sentences()}
    assert "apart" not in told["sharp"]
    assert told["blind"].endswith("so it does not tell them apart.")
    assert told["reversed"].endswith("so it prefers the random one.")
    assert "ties in 100%" in told["flat"]
    turned = meta_report(scores, {"blind": True, "sharp": True, "dim": True, "reversed": False, "flat": True})
    assert [one.metric for one in turned.diagnosticities][:2] == ["sharp", "reversed"]  # lower is better there


def test_agreement_is_kendalls_tau_between_mean_scores():
    scores = scores_of({"sharp": 3.0, "reversed": -3.0, "blind": 0.0})
    report = meta_report(scores, {"sharp": True, "reversed": False, "blind": True})
    assert report.agreement["sharp", "reversed"] == 1  # the same ranking once directions are turned
    names = ("weak", "fair", "good")
    means = [[np.mean(scores[name, metric]) for name in names] for metric in ("sharp", "blind")]
    assert report.agreement["sharp", "blind"] == pytest.approx(kendalltau(*means).statistic)


def test_comparisons_are_rank_sums_over_explainers_with_holm():
    scores = scores_of({"sharp": 3.0, "blind": 0.0, "dim": 0.5})
    report = meta_report(scores, {"sharp": True, "blind": True, "dim": True})
    by_metric = {one.metric: list(one.by_explainer.values()) for one in report.diagnosticities}
    assert len(report.comparisons) == 3
    for one in report.comparisons:
        assert (one.statistic, one.p) == pytest.approx(tuple(ranksums(by_metric[one.first], by_metric[one.second])))
    smallest = min(report.comparisons, key=lambda one: one.p)
    assert smallest.adjusted_p == pytest.approx(min(1, 3 * smallest.p))
    assert compare([]) == []


def test_what_cannot_be_judged_is_named():
    scores = {("random", "sparsity"): [1.0], ("a", "sparsity"): [1.0], ("a", "m"): [1.0], ("random", "n"): [1.0]}
    report = meta_report(scores, {"sparsity": None, "m": True, "n": True})
    assert report.best is None
    assert report.skipped == {
        "sparsity": "neither high nor low is known to be better",
        "m": "there are no scores of random",
        "n": "there are scores of random only",
    }
    undefined = meta_report({("random", "m"): [nan, nan], ("a", "m"): [1.0, nan]}, {"m": True})
    assert np.isnan(undefined.diagnosticities[0].value)
    assert undefined.sentences() == ["m is undefined on all 2 pairs."]
    assert meta_report({}, {}).sentences() == []


def test_scores_of_other_examples_are_refused():
    with pytest.raises(TrothError, match="m: a has 3 scores, the random explainer 2"):
        diagnosticity("m", {"a": [1, 2, 3]}, [1, 2], True)
    with pytest.raises(TrothError, match="m: there is no explainer but the random one"):
        diagnosticity("m", {}, [1, 2], True)
