"""One analysis: interval, p-value, letters and power agree with each other and with scipy."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from troth import statistics
from troth.report.comparing import FEWEST, LEVEL, Analysis

nan = float("nan")


def table(seed=0, count=40, gains=(0.0, 0.2, 0.5), metrics=("up", "down")):
    """metric -> explainer -> values; the gains make later explainers better on the first metric."""
    generator = np.random.default_rng(seed)
    names = [f"m{place}" for place in range(len(gains))]
    return {
        metric: {
            name: gain * (place == 0) + generator.normal(size=count) / 3
            for name, gain in zip(names, gains, strict=True)
        }
        for place, metric in enumerate(metrics)
    }


DIRECTIONS = {"up": True, "down": False}


def test_a_comparison_is_scipys_paired_test_with_holms_correction():
    by_metric = table()
    analysis = Analysis.of(by_metric, DIRECTIONS)
    pairs = list(analysis.comparisons.values())
    tests = [
        scipy.stats.ttest_rel(by_metric[pair.metric][pair.first], by_metric[pair.metric][pair.second]) for pair in pairs
    ]
    adjusted = statistics.holm([test.pvalue for test in tests])
    assert len(pairs) == 6  # three pairs on two metrics: one family
    assert [pair.p for pair in pairs] == pytest.approx(adjusted)
    strongest = int(np.argmin([test.pvalue for test in tests]))
    interval = tests[strongest].confidence_interval(1 - LEVEL / 6)
    assert (pairs[strongest].low, pairs[strongest].high) == pytest.approx((interval.low, interval.high))


@given(st.integers(0, 10_000), st.integers(FEWEST, 40))
def test_an_interval_leaves_zero_out_exactly_where_the_letters_differ(seed, count):
    gains = np.random.default_rng(seed).uniform(0, 0.6, size=4)
    analysis = Analysis.of(table(seed, count, gains), DIRECTIONS)
    for (metric, first, second), pair in analysis.comparisons.items():
        letters = analysis.letters[metric]
        apart = not set(letters[first]) & set(letters[second])
        assert apart == (pair.better is not None) == (not pair.low <= 0 <= pair.high)
    for (name, metric), beats in analysis.beats("m0").items():
        pair = analysis.comparisons[metric, "m0", name]
        assert beats == (pair.better == name)


def test_metrics_that_decide_nothing_are_families_of_their_own():
    by_metric = table(metrics=("up", "down"))
    alone = Analysis.of({"up": by_metric["up"]}, DIRECTIONS)
    apart = Analysis.of(by_metric, DIRECTIONS, reported={"down"})
    assert (apart.deciding, alone.deciding) == (("up",), ("up",))
    for key, pair in alone.comparisons.items():
        assert apart.comparisons[key] == pair
    assert [pair.metric for pair in apart.between("m0", "m1")] == ["up"]
    assert Analysis.of(by_metric, {"up": True, "down": None}).deciding == ("up",)


def test_a_handful_of_examples_and_rounding_prove_nothing():
    # Equal differences, no spread: Student's p-value is 0, however few there are.
    few = Analysis.of({"up": {"a": np.ones(9), "b": np.zeros(9)}}, DIRECTIONS)
    assert few.comparisons["up", "a", "b"].p == 2**-8
    assert few.letters == {"up": {"a": "a", "b": "a"}}
    enough = Analysis.of({"up": {"a": np.ones(10), "b": np.zeros(10)}}, DIRECTIONS)
    assert enough.letters == {"up": {"a": "a", "b": "b"}}
    rare = np.r_[np.ones(4), np.zeros(90)]  # the signs of four examples could have come out so in one case of eight
    assert Analysis.of({"up": {"a": rare, "b": np.zeros(94)}}, DIRECTIONS).comparisons["up", "a", "b"].p == 2**-3
    rounding = Analysis.of({"up": {"a": np.full(500, 0.3 + 1e-8), "b": np.full(500, 0.3)}}, DIRECTIONS)
    assert rounding.comparisons["up", "a", "b"].p == 1.0


def test_undefined_scores_are_left_out_by_pair():
    values = {"a": np.r_[nan, np.arange(12.0)], "b": np.r_[np.arange(12.0) / 2, nan]}
    (pair,) = Analysis.of({"up": values}, DIRECTIONS).comparisons.values()
    assert pair.count == 11
    assert pair.difference == pytest.approx(np.mean(np.arange(11) - np.arange(1, 12) / 2))
    (none,) = Analysis.of({"up": {"a": np.array([nan]), "b": np.array([1.0])}}, DIRECTIONS).comparisons.values()
    assert np.isnan(none.p) and none.better is None  # noqa: PT018


def test_power_is_that_of_the_noncentral_t():
    (pair,) = Analysis.of({"up": {"a": table()["up"]["m1"], "b": table()["up"]["m0"]}}, DIRECTIONS).comparisons.values()
    for count, effect in ((pair.count, pair.detectable), (pair.needed, abs(pair.difference))):
        noncentral = effect / pair.spread * np.sqrt(count)
        critical = scipy.stats.t.ppf(1 - LEVEL / 2, count - 1)
        assert scipy.stats.nct.sf(critical, count - 1, noncentral) == pytest.approx(0.8, abs=0.02)
    assert pair.needed > pair.count or pair.better is not None
    # More tests, more examples.
    analysis = Analysis.of(table(gains=(0.0, 0.2, 0.2, 0.2)), DIRECTIONS)
    assert analysis.comparisons["up", "m0", "m1"].tests == 12
    assert analysis.comparisons["up", "m0", "m1"].needed > pair.needed
