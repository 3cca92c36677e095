"""Which metrics can be trusted: how well each tells real explanations from random ones, and whether metrics differ.

Diagnosticity (Chan et al., 2022) is the fraction of (explanation, random) pairs that a metric orders correctly, over
all examples and explainers, with one random explanation per example. Everything is computed from stored scores by
(explainer, metric): [examples] or [seeds, examples], with examples in the same order and NaN where undefined or not
measured. With several seeds, an example counts as the fraction of its pairs of seeds that are ordered correctly: the
mean of many random explanations would be another, easier opponent than a single one. Examples are the unit of
resampling, testing and counting; examples of one cluster count as one, with the mean of their fractions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from troth import seeds, statistics
from troth.core.copies import Ints
from troth.core.errors import TrothError
from troth.statistics import Floats


@dataclass(frozen=True)
class Diagnosticity:
    """How often a metric prefers a real explanation to a random one; ties are not wins and are counted separately."""

    metric: str
    value: float  # won / (won + tied + lost)
    low: float  # 95 % interval over examples
    high: float
    won: float  # pairs of an explainer and an example; fractions if seeds disagree
    tied: float
    lost: float
    undefined: int  # pairs that are NaN for every seed, which are excluded
    advantage: tuple[float, float, float]  # (won − lost) / pairs with interval: above 0, the metric separates them
    by_explainer: Mapping[str, float]


@dataclass(frozen=True)
class MetricComparison:
    """Whether two metrics differ in diagnosticity, by Wilcoxon's rank-sum test over explainers (and data sets)."""

    first: str
    second: str
    statistic: float
    p: float
    adjusted_p: float  # Holm's correction over all comparisons


@dataclass(frozen=True)
class MetaReport:
    """Metrics from most to least diagnostic, whether they differ, and how well their rankings agree."""

    diagnosticities: tuple[Diagnosticity, ...]
    comparisons: tuple[MetricComparison, ...]
    agreement: Mapping[tuple[str, str], float]  # Kendall's τ between the rankings of explainers
    skipped: Mapping[str, str]  # metric -> why it was excluded

    @property
    def best(self) -> str | None:
        """The metric that separates real from random explanations best."""
        return self.diagnosticities[0].metric if self.diagnosticities else None

    def sentences(self) -> list[str]:
        """The report in words."""
        lines = [_sentence(each) for each in self.diagnosticities]
        defined = [value for value in self.agreement.values() if not np.isnan(value)]
        if defined:
            lines.append(f"The metrics' rankings of explainers agree with a mean Kendall τ of {np.mean(defined):.2f}.")
        return lines


def diagnosticity(
    metric: str,
    explained: Mapping[str, ArrayLike],
    random: ArrayLike,
    higher_is_better: bool,
    clusters: Ints | None = None,
) -> Diagnosticity:
    """One metric's scores for each explainer and for random explanations, with examples in the same order.

    Each is [examples] or [seeds, examples]; the numbers of seeds may differ.
    """
    if not explained:
        raise TrothError(f"{metric}: there is no explainer but the random one; diagnosticity needs another")
    chance = np.atleast_2d(np.asarray(random, np.float64))  # [seeds, examples]
    real = {name: np.atleast_2d(np.asarray(values, np.float64)) for name, values in explained.items()}
    for name, values in real.items():
        if values.shape[-1] != chance.shape[-1]:
            counts = values.shape[-1], chance.shape[-1]
            raise TrothError(f"{metric}: {name} has {counts[0]} scores, the random explainer {counts[1]}")
    shares = [_outcomes(values, chance, higher_is_better, clusters) for values in real.values()]
    won, tied, lost = np.stack(shares, axis=1)  # each [explainers, examples]
    defined = ~np.isnan(won)
    value, low, high = _share(won, defined)
    each = {name: statistics.mean(row) for name, row in zip(real, won, strict=True)}
    wins, ties, losses = (float(np.nansum(share)) for share in (won, tied, lost))
    undefined, advantage = int((~defined).sum()), _share(won - lost, defined)
    return Diagnosticity(metric, value, low, high, wins, ties, losses, undefined, advantage, each)


def meta_report(
    scores: Mapping[tuple[str, str], ArrayLike],
    higher_is_better: Mapping[str, bool | None],
    random: str = "random",
    clusters: Ints | None = None,
) -> MetaReport:
    """Compares all metrics that have scores for the random explainer and a direction."""
    explainers, metrics = (list(dict.fromkeys(key[place] for key in scores)) for place in (0, 1))
    skipped, results = {}, []
    for metric in metrics:
        better = higher_is_better.get(metric)
        explained = {name: scores[name, metric] for name in explainers if name != random and (name, metric) in scores}
        if better is None:
            skipped[metric] = "neither high nor low is known to be better"
        elif (random, metric) not in scores:
            skipped[metric] = f"there are no scores of {random}"
        elif not explained:
            skipped[metric] = f"there are scores of {random} only"
        else:
            results.append(diagnosticity(metric, explained, scores[random, metric], better, clusters))
    results.sort(key=lambda result: (np.isnan(result.value), -result.value))
    means = {
        result.metric: _means(scores, result, bool(higher_is_better[result.metric]), clusters) for result in results
    }
    agreement = {pair: _agreement(means[pair[0]], means[pair[1]]) for pair in combinations(means, 2)}
    return MetaReport(tuple(results), tuple(compare(results)), agreement, skipped)


def compare(results: Sequence[Diagnosticity]) -> list[MetricComparison]:
    """Wilcoxon's rank-sum test between every two metrics, on their diagnosticity with each explainer."""
    pairs = list(combinations(results, 2))
    tests = [statistics.wilcoxon_rank_sum(*(list(result.by_explainer.values()) for result in pair)) for pair in pairs]
    adjusted = statistics.holm([p for _, p in tests])
    return [
        MetricComparison(first.metric, second.metric, statistic, p, float(holm))
        for (first, second), (statistic, p), holm in zip(pairs, tests, adjusted, strict=True)
    ]


def _outcomes(real: Floats, chance: Floats, higher_is_better: bool, clusters: Ints | None) -> Floats:
    """[3, clusters] The fraction of pairs of seeds that are won, tied and lost; NaN if no pair is defined."""
    real, chance = np.broadcast_arrays(real[:, None], chance)  # [seeds, random seeds, examples]
    more, less = real > chance, real < chance
    won, lost = (more, less) if higher_is_better else (less, more)
    outcomes = np.where(np.isnan(real) | np.isnan(chance), np.nan, [won, real == chance, lost])
    flat = (outcome.reshape(-1, outcome.shape[-1]) for outcome in outcomes)  # [pairs of seeds, examples]
    return np.stack([seeds.mean_over_seeds(outcome, clusters) for outcome in flat])


def _share(counted: NDArray[Any], defined: NDArray[np.bool_]) -> tuple[float, float, float]:
    """The fraction over the defined pairs, with its interval. [explainers, examples]

    Examples are resampled with all their explainers, because pairs that share a random explanation are dependent.
    """
    if not defined.any():
        return np.nan, np.nan, np.nan
    counts = np.stack([np.where(defined, counted, 0.0).sum(0), defined.sum(0)], axis=-1).astype(np.float64)

    def share(means: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            return np.asarray(means[..., 0] / means[..., 1])

    return statistics.bca_of_means(counts, share)


def _sentence(result: Diagnosticity) -> str:
    pairs = result.won + result.tied + result.lost
    if not pairs:
        return f"{result.metric} is undefined on all {result.undefined} pairs."
    _, low, high = result.advantage
    verdict = "" if low > 0 else ", so it does not tell them apart" if high >= 0 else ", so it prefers the random one"
    return (
        f"{result.metric} puts the explanation before a random one in {result.value:.0%} of {pairs:.0f} pairs "
        f"[{result.low:.0%}, {result.high:.0%}], behind it in {result.lost / pairs:.0%}, "
        f"ties in {result.tied / pairs:.0%}{verdict}."
    )


def _means(
    scores: Mapping[tuple[str, str], ArrayLike], result: Diagnosticity, higher_is_better: bool, clusters: Ints | None
) -> dict[str, float]:
    """Each explainer's mean score, negated if lower is better."""
    sign = 1 if higher_is_better else -1
    values = {name: np.atleast_2d(scores[name, result.metric]) for name in result.by_explainer}
    means = {name: statistics.mean(seeds.mean_over_seeds(by_seed, clusters)) for name, by_seed in values.items()}
    return {name: sign * mean for name, mean in means.items() if not np.isnan(mean)}


def _agreement(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    shared = [name for name in first if name in second]
    return statistics.kendall_tau([first[name] for name in shared], [second[name] for name in shared])
