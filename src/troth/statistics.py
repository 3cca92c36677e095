"""Intervals, tests and combinations of p-values: the uncertainty of a table of scores.

NaN is an undefined score: intervals and tests leave it out (pairwise if values are paired), but combining p-values that
include a NaN gives NaN. Random draws use seed 0, so the same values give the same interval.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from string import ascii_letters
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
import scipy.stats
from numpy.typing import ArrayLike, NDArray

from troth.core.errors import TrothError, warn_renamed

Floats = NDArray[np.float64]
RESAMPLES = 9_999
_DRAWS_AT_ONCE = 1_000_000  # maximum number of values held in memory while resampling
# The most that a model's probabilities change with the shape of a batch, by number format. In float32, rounding errors
# accumulate from layer to layer (128 times the machine epsilon). In 16-bit formats, sums are still accumulated in
# float32, and what remains is the rounding of the last layers (twice the epsilon). Scores are never more precise than
# float32.
_RESOLUTION = {"float16": 2.0**-9, "bfloat16": 2.0**-6}


def resolution(dtype: str = "float32") -> float:
    """The smallest difference of two scores between 0 and 1 that a model with this number format can resolve.

    >>> resolution(), resolution("bfloat16")
    (1.52587890625e-05, 0.015625)
    """
    return _RESOLUTION.get(dtype.removeprefix("torch."), 2.0**-16)


# Combining p-values


def simes(p: ArrayLike) -> Any:
    """Simes's p-value of the hypothesis that all null hypotheses hold: min p₍ᵢ₎·n/i over the last axis.

    >>> simes([0.5, 0.01, 0.03])
    0.03
    """
    values = np.sort(_p_values(p), axis=-1)
    count = values.shape[-1]
    if count == 0:
        return _plain(np.full(values.shape[:-1], np.nan))
    return _plain((values * count / np.arange(1, count + 1)).min(-1))


def fisher(p: ArrayLike) -> Any:
    """Fisher's statistic −2 Σ log p over the last axis: χ² with 2n degrees of freedom for independent p-values.

    >>> round(fisher([0.5, 0.5]), 6)
    2.772589
    """
    with np.errstate(divide="ignore"):
        return _plain(-2 * np.log(_p_values(p)).sum(-1))


def holm(p: ArrayLike) -> Floats:
    """Holm's adjusted p-values, in the given order; a NaN stays NaN and does not count as a test.

    >>> holm([0.02, 0.01, 0.5])
    array([0.04, 0.03, 0.5 ])
    """
    values = _p_values(p).reshape(-1)
    adjusted = np.full(len(values), np.nan)
    tested = np.flatnonzero(~np.isnan(values))
    order = tested[np.argsort(values[tested], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(values[order] * factors))
    return adjusted


# Means and their intervals


def mean(values: ArrayLike) -> float:
    """The mean of the defined values; NaN if there are none."""
    sample = _defined(values)
    return float(sample.mean()) if len(sample) else float("nan")


def bca_interval(values: ArrayLike, level: float = 0.95) -> tuple[float, float]:
    """Bias-corrected and accelerated bootstrap interval (low, high) of the mean; a single point for constant data.

    >>> bca_interval([0.25, 0.25, float("nan")])
    (0.25, 0.25)
    """
    sample = _defined(values)
    if len(sample) == 0:
        return float("nan"), float("nan")
    if np.all(sample == sample[0]):
        return float(sample[0]), float(sample[0])
    low, high = _bootstrap(sample, level, "BCa")
    # The acceleration of BCa is undefined for values that are equal up to rounding.
    return (low, high) if np.isfinite([low, high]).all() else _bootstrap(sample, level, "percentile")


def bca_of_means(
    values: Floats, function: Callable[[Floats], Floats], level: float = 0.95
) -> tuple[float, float, float]:
    """(value, low, high) of a function of the column means of [examples, columns]; BCa resamples the examples.

    The function takes [..., columns] and returns [...]; resamples for which it is undefined (NaN) are ignored.
    """
    count = len(values)
    value = float(function(values.mean(0)))
    generator = np.random.default_rng(0)
    step = max(1, _DRAWS_AT_ONCE // max(1, *values.shape))
    drawn = []
    for start in range(0, RESAMPLES, step):
        size = min(step, RESAMPLES - start)
        weights = generator.multinomial(count, np.full(count, 1 / count), size=size)
        drawn.append(function(weights @ values / count))
    resampled = np.sort(_defined(np.concatenate(drawn)))
    if np.isnan(value) or len(resampled) == 0:
        return value, float("nan"), float("nan")
    if resampled[0] == resampled[-1]:
        return value, float(resampled[0]), float(resampled[-1])
    jackknife = function((values.sum(0) - values) / max(1, count - 1))
    away = np.nanmean(jackknife) - jackknife
    spread = np.nansum(away**2) ** 1.5
    acceleration = np.nansum(away**3) / (6 * spread) if spread > 0 else 0.0
    share = (np.sum(resampled < value) + np.sum(resampled <= value)) / (2 * len(resampled))
    bias = scipy.stats.norm.ppf(np.clip(share, 1e-6, 1 - 1e-6))
    places = bias + scipy.stats.norm.ppf([(1 - level) / 2, (1 + level) / 2])
    shares = scipy.stats.norm.cdf(bias + places / (1 - acceleration * places))
    low, high = np.quantile(resampled, shares)
    return value, float(low), float(high)


class CrossedMean(NamedTuple):
    """A mean with its interval, and the two-sided p-value of the hypothesis that it is 0."""

    mean: float
    low: float
    high: float
    p: float
    seeds: int
    texts: int  # number of texts that are defined for every seed


def crossed_mean(values: ArrayLike | Sequence[ArrayLike], level: float = 0.95) -> CrossedMean:
    """The mean of [seeds, texts], where every seed has the same texts and both are random samples.

    The variance of the mean is that of a two-way analysis of variance with random effects: seeds, texts and the
    residual. The critical value is the larger of Student's t with Satterthwaite's degrees of freedom and Cochran's
    average of the t values of seeds and texts, weighted by their shares of the variance; with few seeds, either one
    alone is too narrow in some cases (tests/test_crossed.py). With one seed, the interval holds for that seed only;
    with one value per seed (a RACU, an F1), it is Student's interval over seeds. Differences of two methods on the same
    texts are compared this way. Seeds without values (failed trainings) are ignored.

    >>> found = crossed_mean([[0.1, 0.3, 0.2], [0.2, 0.4, 0.3]])
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3), round(found.p, 3)
    (0.25, -0.354, 0.854, 0.14)
    """
    by_seed = [seed for seed in values if np.size(seed)]  # type: ignore[union-attr]
    lengths = sorted({np.size(seed) for seed in by_seed})
    if len(lengths) > 1:
        raise TrothError(f"seeds have {lengths} values; each needs one per example, NaN where there is none")
    table = np.atleast_2d(np.asarray(by_seed, np.float64))
    table = table[:, ~np.isnan(table).any(0)]
    seeds, texts = table.shape
    if not texts or table.size < 2:
        mean = float(table.mean()) if table.size else float("nan")
        return CrossedMean(mean, float("nan"), float("nan"), float("nan"), seeds, texts)
    mean = table.mean()
    of_seeds, of_texts = seeds - 1, texts - 1  # degrees of freedom
    left = table - table.mean(1, keepdims=True) - table.mean(0) + mean
    between_seeds = texts * np.square(table.mean(1) - mean).sum() / max(1, of_seeds)
    between_texts = seeds * np.square(table.mean(0) - mean).sum() / max(1, of_texts)
    within = np.square(left).sum() / max(1, of_seeds * of_texts)
    variance = max(between_seeds + between_texts - within, between_seeds, between_texts)
    error = float(np.sqrt(variance / table.size))
    if error == 0:
        return CrossedMean(float(mean), float(mean), float(mean), float(mean == 0), seeds, texts)
    parts = [(between_seeds, of_seeds), (between_texts, of_texts), (within, of_seeds * of_texts)]
    freedom = max(1.0, variance**2 / sum(part**2 / degrees for part, degrees in parts if degrees))
    share = float(np.clip((between_seeds - within) / variance, 0, 1)) if of_texts else 1.0

    def critical(p: float) -> float:
        each = [scipy.stats.t.isf(p / 2, degrees) if degrees else 0.0 for degrees in (of_seeds, of_texts)]
        return float(max(scipy.stats.t.isf(p / 2, freedom), share * each[0] + (1 - share) * each[1]))

    low, high = mean - critical(1 - level) * error, mean + critical(1 - level) * error
    ratio, least = abs(mean) / error, -80.0  # lower bound of log p, below which Student's t is inaccurate
    if critical(np.exp(least)) > ratio:
        least = scipy.optimize.brentq(lambda log_p: critical(np.exp(log_p)) - ratio, least, 0)
    return CrossedMean(float(mean), float(low), float(high), float(np.exp(least)), seeds, texts)


def hierarchical_interval(values_by_seed: Sequence[ArrayLike], level: float = 0.95) -> tuple[float, float]:
    """Deprecated: use crossed_mean. Returns its interval (low, high)."""
    warn_renamed("troth.statistics.hierarchical_interval", "troth.statistics.crossed_mean")
    return crossed_mean(values_by_seed, level)[1:3]


# Tests


def wilcoxon_rank_sum(a: ArrayLike, b: ArrayLike) -> tuple[float, float]:
    """(z, two-sided p) of Wilcoxon's rank-sum test for two independent samples, by normal approximation.

    >>> statistic, p = wilcoxon_rank_sum([1, 2, 3], [4, 5, 6])
    >>> round(statistic, 3), round(p, 3)
    (-1.964, 0.05)
    """
    first, second = _defined(a), _defined(b)
    if len(first) == 0 or len(second) == 0:
        return float("nan"), float("nan")
    result = scipy.stats.ranksums(first, second)
    return float(result.statistic), float(result.pvalue)


def t_test(a: ArrayLike, b: ArrayLike) -> tuple[float, float]:
    """(t, two-sided p) of Student's test for two independent samples; NaN with fewer than two values in a sample.

    >>> statistic, p = t_test([0.87, 0.88, 0.86], [0.83, 0.82, 0.84])
    >>> round(statistic, 3), round(p, 4)
    (4.899, 0.008)
    """
    first, second = _defined(a), _defined(b)
    if min(len(first), len(second)) < 2:
        return float("nan"), float("nan")
    if np.ptp(first) == 0 and np.ptp(second) == 0:
        return (0.0, 1.0) if first[0] == second[0] else (float(np.sign(first[0] - second[0]) * np.inf), 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # raised for samples of nearly equal values
        result = scipy.stats.ttest_ind(first, second)
    return float(result.statistic), float(result.pvalue)


def paired_test(a: ArrayLike, b: ArrayLike) -> tuple[float, float]:
    """Deprecated: use scipy.stats.wilcoxon. (statistic, two-sided p) of the signed-rank test; equal pairs: p = 1."""
    warn_renamed("troth.statistics.paired_test", "scipy.stats.wilcoxon")
    difference = _defined(np.subtract(*_paired(a, b)))
    if len(difference) == 0:
        return float("nan"), float("nan")
    if not difference.any():
        return 0.0, 1.0
    result = scipy.stats.wilcoxon(difference[difference != 0])
    return float(result.statistic), float(result.pvalue)


def kendall_tau(a: ArrayLike, b: ArrayLike) -> float:
    """Agreement of two rankings (τ-b), from −1 to 1; NaN if one side is constant.

    >>> round(kendall_tau([1, 2, 3, 4], [1, 3, 2, 4]), 6)
    0.666667
    """
    first, second = _paired(a, b)
    defined = ~(np.isnan(first) | np.isnan(second))
    if defined.sum() < 2:
        return float("nan")
    return float(scipy.stats.kendalltau(first[defined], second[defined]).statistic)


def letters(names: Sequence[str], apart: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The letters of each name (compact letter display); names that share one are not among the pairs in `apart`.

    >>> letters(["high", "middle", "low"], [("high", "low")])
    {'high': 'a', 'middle': 'ab', 'low': 'b'}
    """
    groups = {frozenset(names)} if names else set()
    for pair in apart:
        groups = _parted(groups, *pair)
    ordered = sorted(groups, key=lambda group: sorted(map(names.index, group)))
    marks = [ascii_letters[i] if i < len(ascii_letters) else f"({i + 1})" for i in range(len(ordered))]
    return {name: "".join(mark for mark, group in zip(marks, ordered, strict=True) if name in group) for name in names}


def by_mean(values: Mapping[str, ArrayLike], higher_is_better: bool) -> list[str]:
    """The names from the best mean to the worst; names without a mean come last."""
    means = {name: -mean(sample) if higher_is_better else mean(sample) for name, sample in values.items()}
    return sorted(values, key=lambda name: (np.isnan(means[name]), means[name]))


def _parted(groups: set[frozenset[str]], first: str, second: str) -> set[frozenset[str]]:
    """Splits groups that contain both names, and drops groups within another (Piepho 2004, insert and absorb)."""
    pair = {first, second}
    split = {part for group in groups for part in ([group - {name} for name in pair] if pair <= group else [group])}
    return {group for group in split if not any(group < larger for larger in split)}


def _bootstrap(values: Floats, level: float, method: str) -> tuple[float, float]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", scipy.stats.DegenerateDataWarning)
        interval = scipy.stats.bootstrap(
            (values,),
            np.mean,
            n_resamples=RESAMPLES,
            confidence_level=level,
            method=method,
            batch=max(1, _DRAWS_AT_ONCE // len(values)),
            rng=np.random.default_rng(0),
        ).confidence_interval
    return float(interval.low), float(interval.high)


def _defined(values: ArrayLike) -> Floats:
    sample = np.atleast_1d(np.asarray(values, np.float64))
    if sample.ndim != 1:
        raise TrothError(f"values of shape {sample.shape} are not a sample; crossed_mean takes [seeds, examples]")
    return sample[~np.isnan(sample)]


def _paired(a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if first.shape != second.shape or first.ndim != 1:
        raise TrothError(f"paired values must be two lists of one length, not shapes {first.shape} and {second.shape}")
    return first, second


def _p_values(p: ArrayLike) -> Floats:
    values = np.atleast_1d(np.asarray(p, np.float64))
    if np.any((values < 0) | (values > 1)):
        raise TrothError("p-values lie between 0 and 1")
    return values


def _plain(values: Any) -> Any:
    return float(values) if np.ndim(values) == 0 else values
