import math
from itertools import combinations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from troth import statistics
from troth.core.errors import TrothError

nan = float("nan")
p_lists = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def same(value, expected):
    np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)


# Combining p-values


def test_simes_by_hand():
    # sorted 0.01 0.04 0.3: 0.01·3/1 = 0.03, 0.04·3/2 = 0.06, 0.3·3/3 = 0.3
    same(statistics.simes([0.3, 0.01, 0.04]), 0.03)
    # sorted 0.02 0.021 0.022: the last one wins
    same(statistics.simes([0.022, 0.02, 0.021]), 0.022)
    same(statistics.simes([[0.5, 0.5], [0.01, 1.0]]), [0.5, 0.02])
    assert statistics.simes(0.2) == 0.2
    assert statistics.simes([0.0, 1.0]) == 0
    assert math.isnan(statistics.simes([]))
    assert math.isnan(statistics.simes([0.1, nan]))


@given(p_lists)
def test_simes_lies_between_the_least_p_and_bonferroni(p):
    value = statistics.simes(p)
    assert min(p) <= value * (1 + 1e-12)
    assert value <= min(max(p), min(p) * len(p)) * (1 + 1e-12)
    assert value == statistics.simes(p[::-1])


def test_fisher_is_the_plain_statistic():
    same(statistics.fisher([0.1, 0.5]), -2 * (math.log(0.1) + math.log(0.5)))
    p = np.random.default_rng(0).random((3, 7))
    same(statistics.fisher(p), [scipy.stats.combine_pvalues(row, method="fisher").statistic for row in p])
    assert statistics.fisher([0.0, 0.5]) == math.inf
    assert statistics.fisher([1.0, 1.0]) == 0
    assert math.isnan(statistics.fisher([0.1, nan]))


def test_p_values_outside_0_and_1_are_refused():
    for combine in (statistics.simes, statistics.fisher, statistics.holm):
        with pytest.raises(TrothError, match="between 0 and 1"):
            combine([0.5, 1.5])


def test_holm_by_hand():
    # 0.01·4, then 0.011·3 = 0.033 lifted to 0.04, then 0.03·2, then 0.9
    same(statistics.holm([0.03, 0.01, 0.9, 0.011]), [0.06, 0.04, 0.9, 0.04])
    same(statistics.holm([0.6, 0.6]), [1, 1])
    same(statistics.holm([0.01, nan, 0.5]), [0.02, nan, 0.5])
    assert statistics.holm([]).tolist() == []


@given(p_lists, st.floats(0.001, 0.999))
def test_holm_rejects_as_the_step_down_procedure_does(p, level):
    rejected = set()
    for step, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if p[place] * (len(p) - step) > level:
            break
        rejected.add(place)
    assert set(np.flatnonzero(statistics.holm(p) <= level)) == rejected


# Intervals


@pytest.mark.parametrize("size", [2, 37, 1001])
def test_bca_interval_is_scipys(size):
    values = np.random.default_rng(size).exponential(size=size)
    expected = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=9999, method="BCa", rng=np.random.default_rng(0)
    ).confidence_interval
    assert statistics.bca_interval(values) == (expected.low, expected.high)
    assert statistics.bca_interval([*values, nan]) == (expected.low, expected.high)


def test_bca_interval_narrows_with_the_level():
    values = np.random.default_rng(1).normal(size=50)
    low, high = statistics.bca_interval(values, level=0.5)
    wide_low, wide_high = statistics.bca_interval(values, level=0.99)
    assert wide_low < low < values.mean() < high < wide_high


@pytest.mark.parametrize("values", [[0.1], [0.1] * 7, [0.1, nan, 0.1]])
def test_bca_interval_of_constant_data_is_the_value(values):
    assert statistics.bca_interval(values) == (0.1, 0.1)


def test_bca_interval_where_there_is_little_or_nothing():
    assert all(map(math.isnan, statistics.bca_interval([])))
    assert all(map(math.isnan, statistics.bca_interval([nan])))
    low, high = statistics.bca_interval([0.1, 0.1, 0.1, math.nextafter(0.1, 1)])  # scipy's BCa gives NaN
    assert 0.1 <= low <= high <= math.nextafter(0.1, 1)
    with pytest.raises(TrothError, match="crossed_mean"):
        statistics.bca_interval([[0.1, 0.2]])


def test_bca_interval_covers_the_mean():
    generator = np.random.default_rng(3)
    intervals = [statistics.bca_interval(generator.normal(size=30), level=0.8) for _ in range(200)]
    covered = sum(low <= 0 <= high for low, high in intervals)
    assert 140 <= covered <= 178  # 160 expected, four standard errors below and three above


def test_hierarchical_interval_is_that_of_crossed_mean():
    values = [[0.5, 0.25, nan], [], [0.5, 0.75, 0.5]]
    assert statistics.hierarchical_interval(values) == statistics.crossed_mean([[0.5, 0.25], [0.5, 0.75]])[1:3]
    with pytest.raises(TrothError, match="one per example, NaN where there is none"):
        statistics.crossed_mean([[0.5, 0.5], [0.5]])


# Tests


def test_wilcoxon_rank_sum():
    # Ranks 1 2 3 of six: sum 6, mean 10.5, variance 3·3·7/12
    statistic, p = statistics.wilcoxon_rank_sum([1, 2, 3], [4, 5, 6])
    same(statistic, (6 - 10.5) / math.sqrt(5.25))
    same(p, 2 * scipy.stats.norm.sf(abs(statistic)))
    a, b = np.random.default_rng(5).normal(size=(2, 20))
    assert statistics.wilcoxon_rank_sum([*a, nan], b) == tuple(scipy.stats.ranksums(a, b))
    assert all(map(math.isnan, statistics.wilcoxon_rank_sum([], [1])))


def test_paired_test():
    # Differences 1 2 3 4 5, all positive: 2 of the 32 sign patterns are as extreme
    a, b = [2, 4, 6, 8, 10], [1, 2, 3, 4, 5]
    assert statistics.paired_test(a, b) == (0.0, 2 / 32)
    assert statistics.paired_test([*a, 7, nan], [*b, 7, 1]) == (0.0, 2 / 32)
    assert statistics.paired_test(b, b) == (0.0, 1.0)
    assert all(map(math.isnan, statistics.paired_test([nan], [1])))
    with pytest.raises(TrothError, match="one length"):
        statistics.paired_test([1, 2], [1])


def test_kendall_tau():
    a, b = [1, 2, 3, 4], [1, 3, 2, 4]
    same(statistics.kendall_tau(a, b), (5 - 1) / 6)
    same(statistics.kendall_tau([*a, nan], [*b, 0]), (5 - 1) / 6)
    assert math.isnan(statistics.kendall_tau([1, 1], [1, 2]))
    assert math.isnan(statistics.kendall_tau([], []))


def test_letters_by_hand():
    # Neighbors are alike, the ends are not: a chain.
    assert statistics.letters(["high", "middle", "low"], [("low", "high")]) == {"high": "a", "middle": "ab", "low": "b"}
    assert statistics.letters(["best", "same", "worst"], [("best", "worst"), ("same", "worst")]) == {
        "best": "a", "same": "a", "worst": "b"
    }  # fmt: skip
    assert statistics.letters([], []) == {}
    assert statistics.letters(["alone"], []) == {"alone": "a"}


@given(st.sets(st.sampled_from(list(combinations("abcdef", 2)))))
def test_names_share_a_letter_exactly_when_they_are_not_apart(apart):
    letters = statistics.letters(list("abcdef"), apart)
    for pair in combinations("abcdef", 2):
        assert bool(set(letters[pair[0]]) & set(letters[pair[1]])) == (pair not in apart)


def test_names_by_mean():
    values = {"low": [1.0, nan], "high": [3.0, 5.0], "none": [nan, nan]}
    assert statistics.by_mean(values, higher_is_better=True) == ["high", "low", "none"]
    assert statistics.by_mean(values, higher_is_better=False) == ["low", "high", "none"]


def test_t_test_is_scipys_and_by_hand():
    # means 3 and 1, both variances 1, three values each: t = 2 / √(2/3)
    statistic, p = statistics.t_test([2, 3, 4], [0, 1, 2])
    assert statistic == pytest.approx(2 / np.sqrt(2 / 3))
    assert p == pytest.approx(2 * scipy.stats.t.sf(statistic, 4))
    assert np.isnan(statistics.t_test([1.0], [1.0, 2.0])).all()
    assert statistics.t_test([1, 1], [1, 1]) == (0.0, 1.0)
    assert statistics.t_test([2, 2], [1, 1]) == (np.inf, 0.0)
