"""`statistics.crossed_mean`: by hand, by a slow twin, and how often its intervals hold the truth."""

import math

import numpy as np
import pytest
import scipy.stats

from troth import statistics

# Deviations of seeds, texts and the rest: from seeds that change nothing to seeds that decide.
SPREADS = [(0, 1, 1), (0.05, 1, 1), (0.2, 1, 1), (0.5, 1, 1), (1, 1, 1), (0, 0.3, 1), (0.1, 0, 1)]
SIZES = [(seeds, texts) for seeds in (3, 5, 10) for texts in (50, 200, 1000)]


def drawn(generator, seeds, texts, spread):
    of_seed, of_text, rest = spread
    parts = ((of_seed, (seeds, 1)), (of_text, (1, texts)), (rest, (seeds, texts)))
    return sum(scale * generator.standard_normal(shape) for scale, shape in parts)


@pytest.mark.parametrize("values", [[0.1, 0.3, 0.2, 0.6], [[0.1], [0.3], [0.2], [0.6]]])
def test_one_seed_or_one_value_per_seed_is_students_t(values):
    found = statistics.crossed_mean(values)
    expected = scipy.stats.ttest_1samp(np.ravel(values), 0)
    interval = expected.confidence_interval()
    assert (found.low, found.high, found.p) == pytest.approx((interval.low, interval.high, expected.pvalue))


def test_by_a_slow_twin():
    """Sums of squares by loops, as in a textbook's table of a two-way analysis of variance."""
    values = drawn(np.random.default_rng(1), 4, 9, (1, 2, 0.5)) + 0.4
    mean = sum(map(sum, values)) / 36
    rows = [sum(row) / 9 for row in values]
    columns = [sum(values[i][j] for i in range(4)) / 4 for j in range(9)]
    seeds = 9 * sum((row - mean) ** 2 for row in rows) / 3
    texts = 4 * sum((column - mean) ** 2 for column in columns) / 8
    rest = sum((values[i][j] - rows[i] - columns[j] + mean) ** 2 for i in range(4) for j in range(9)) / 24
    variance = seeds + texts - rest
    assert variance > max(seeds, texts)
    freedom = variance**2 / (seeds**2 / 3 + texts**2 / 8 + rest**2 / 24)
    share = (seeds - rest) / variance
    quantile = scipy.stats.t(freedom).ppf(0.975)
    mixed = share * scipy.stats.t(3).ppf(0.975) + (1 - share) * scipy.stats.t(8).ppf(0.975)
    half = max(quantile, mixed) * math.sqrt(variance / 36)
    found = statistics.crossed_mean(values)
    assert (found.mean, found.low, found.high) == pytest.approx((mean, mean - half, mean + half))
    assert (found.seeds, found.texts) == (4, 9)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_the_p_value_is_where_the_interval_meets_zero(level):
    values = drawn(np.random.default_rng(2), 3, 20, (0.3, 1, 1))
    half = statistics.crossed_mean(values, level).high - values.mean()
    moved = values - values.mean() + half
    assert statistics.crossed_mean(moved).p == pytest.approx(1 - level, rel=1e-6)


def test_copies_of_a_seed_are_no_evidence_of_other_seeds():
    texts = np.random.default_rng(3).standard_normal(40) + 0.5
    alone, copied = statistics.crossed_mean(texts), statistics.crossed_mean([texts] * 5)
    assert copied.high - copied.low == pytest.approx(alone.high - alone.low, rel=0.01)


def test_texts_that_a_seed_lacks_are_left_out_and_constants_are_certain():
    found = statistics.crossed_mean([[1.0, 2.0, float("nan")], [3.0, 5.0, 4.0]])
    assert (found.mean, found.texts) == (2.75, 2)
    assert statistics.crossed_mean([[0.5] * 4] * 3) == (0.5, 0.5, 0.5, 0.0, 3, 4)
    assert statistics.crossed_mean([[0.0] * 4] * 3).p == 1
    assert statistics.crossed_mean([[1e6, 1e6 + 1e-9], [1e6, 1e6]]).p < 1e-6
    assert math.isnan(statistics.crossed_mean([[float("nan")]]).mean)
    assert math.isnan(statistics.crossed_mean([[0.5]]).low)


def coverage(seeds, texts, spread, times):
    """How often the interval of `crossed_mean` holds the mean; and those over texts and over seeds alone."""
    generator = np.random.default_rng([seeds, texts, *(int(100 * part) for part in spread)])
    held = np.zeros(3)
    for _ in range(times):
        values = drawn(generator, seeds, texts, spread)
        for number, each in enumerate((values, values.mean(0), values.mean(1))):
            found = statistics.crossed_mean(each)
            held[number] += found.low <= 0 <= found.high
    return held / times


@pytest.mark.full
@pytest.mark.parametrize(("seeds", "texts"), [(3, 50), (5, 200)])
def test_intervals_hold_the_truth(seeds, texts):
    crossed, over_texts, over_seeds = np.mean([coverage(seeds, texts, each, 150) for each in SPREADS], axis=0)
    assert 0.93 <= crossed <= 0.98
    assert over_texts < 0.85  # as if the same seeds would be drawn again
    assert over_seeds < 0.95  # as if the same texts would be


@pytest.mark.full
@pytest.mark.parametrize(("seeds", "texts"), SIZES)
def test_intervals_hold_the_truth_for_every_number_of_seeds_and_texts(seeds, texts):
    each = np.array([coverage(seeds, texts, spread, 1000)[0] for spread in SPREADS])
    assert 0.93 <= each.mean() <= 0.97
    assert each.min() > 0.92  # three deviations of a thousand draws below 94.5 %
