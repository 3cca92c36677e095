"""Which metric can be trusted here? Each is asked to tell real explanations from random ones, and they are compared.

Diagnosticity (Chan et al., 2022) is the share of (explanation, random) pairs a metric orders rightly, over all examples
and explainers, one random explanation an example. Everything is computed from stored scores by (explainer, metric):
[examples] or [seeds, examples], examples in the same order, NaN where undefined or not measured. With several seeds, an
example counts as the share of its pairs of seeds that is ordered rightly: the mean of many random explanations would be
another, easier opponent than one random explanation. Examples are what is drawn, tested and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from troth import seeds, statistics
from troth.core.errors import TrothError
from troth.statistics import Floats

_LEVEL = 0.05


@dataclass(frozen=True)
class Diagnosticity:
    """How often a metric puts a real explanation before a random one; a tie is not won and told apart."""

    metric: str
    value: float  # won / (won + tied + lost)
    low: float  # 95 % interval over examples
    high: float
    won: float  # pairs of an explainer and an example; a fraction where its seeds disagree
    tied: float
    lost: float
    undefined: int  # pairs with a NaN in every seed, left out
    advantage: tuple[float, float, float]  # (won − lost) / pairs and its interval: above 0, the metric tells them apart
    by_explainer: Mapping[str, float]


@dataclass(frozen=True)
class Comparison:
    """Do two metrics differ in diagnosticity? Wilcoxon's rank-sum test over explainers (and data sets)."""

    first: str
    second: str
    statistic: float
    p: float
    adjusted_p: float  # Holm's, over all comparisons


@dataclass(frozen=True)
class MetaReport:
    """Metrics from the most diagnostic to the least, whether they differ, and how far their rankings agree."""

    diagnosticities: tuple[Diagnosticity, ...]
    comparisons: tuple[Comparison, ...]
    agreement: Mapping[tuple[str, str], float]  # Kendall's τ between the rankings of explainers
    skipped: Mapping[str, str]  # metric -> why it was left out

    @property
    def best(self) -> str | None:
        """The metric that separates real from random explanations best."""
        return self.diagnosticities[0].metric if self.diagnosticities else None

    def sentences(self) -> list[str]:
        """The report in words."""
        lines = [_sentence(found) for found in self.diagnosticities]
        known = [value for value in self.agreement.values() if not np.isnan(value)]
        if known:
            lines.append(f"The metrics' rankings of explainers agree with a mean Kendall τ of {np.mean(known):.2f}.")
        return lines


def diagnosticity(
    metric: str, explained: Mapping[str, ArrayLike], random: ArrayLike, higher_is_better: bool
) -> Diagnosticity:
    """One metric's scores of each explainer and of random explanations, examples in the same order.

    Each is [examples] or [seeds, examples]; explainers and the random one may have different numbers of seeds.
    """
    if not explained:
        raise TrothError(f"{metric}: there is no explainer beside the random one; diagnosticity needs at least one")
    chance = np.atleast_2d(np.asarray(random, np.float64))  # [seeds, examples]
    real = {name: np.atleast_2d(np.asarray(values, np.float64)) for name, values in explained.items()}
    for name, values in real.items():
        if values.shape[-1] != chance.shape[-1]:
            counts = values.shape[-1], chance.shape[-1]
            raise TrothError(f"{metric}: {name} has {counts[0]} scores, the random explainer {counts[1]}")
    shares = [_outcomes(values, chance, higher_is_better) for values in real.values()]
    won, tied, lost = np.stack(shares, axis=1)  # each [explainers, examples]
    known = ~np.isnan(won)
    value, low, high = _share(won, known)
    each = {name: _mean(row) for name, row in zip(real, won, strict=True)}
    sums = [float(np.nansum(share)) for share in (won, tied, lost)]
    undefined, advantage = int((~known).sum()), _share(won - lost, known)
    return Diagnosticity(metric, value, low, high, sums[0], sums[1], sums[2], undefined, advantage, each)


def meta_report(
    scores: Mapping[tuple[str, str], ArrayLike],
    higher_is_better: Mapping[str, bool | None],
    random: str = "random",
) -> MetaReport:
    """Compares the metrics that have scores of the random explainer and a direction."""
    explainers, metrics = (list(dict.fromkeys(key[place] for key in scores)) for place in (0, 1))
    skipped, found = {}, []
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
            found.append(diagnosticity(metric, explained, scores[random, metric], better))
    found.sort(key=lambda one: (np.isnan(one.value), -one.value))
    means = {one.metric: _means(scores, one, bool(higher_is_better[one.metric])) for one in found}
    agreement = {pair: _agreement(means[pair[0]], means[pair[1]]) for pair in combinations(means, 2)}
    return MetaReport(tuple(found), tuple(compare(found)), agreement, skipped)


def beats_random(
    by_metric: Mapping[str, Mapping[str, Floats]], directions: Mapping[str, bool | None], random: str = "random"
) -> dict[tuple[str, str], bool]:
    """(explainer, metric): are its scores, one per example, significantly better than the random ones?

    Signed-rank tests, Holm's correction over all.
    """
    keys, p_values, better = [], [], []
    for metric, found in by_metric.items():
        if directions[metric] is None or random not in found:
            continue
        for name, scores in found.items():
            if name == random:
                continue
            gain = _mean(scores - found[random])
            keys.append((name, metric))
            p_values.append(statistics.paired_test(scores, found[random])[1])
            better.append(gain > 0 if directions[metric] else gain < 0)
    adjusted = statistics.holm(np.nan_to_num(np.array(p_values), nan=1.0))
    return {key: bool(good and p < _LEVEL) for key, good, p in zip(keys, better, adjusted, strict=True)}


def compare(found: Sequence[Diagnosticity]) -> list[Comparison]:
    """Wilcoxon's rank-sum test between every two metrics, on their diagnosticity with each explainer."""
    pairs = list(combinations(found, 2))
    tests = [statistics.wilcoxon_rank_sum(*(list(one.by_explainer.values()) for one in pair)) for pair in pairs]
    adjusted = statistics.holm([p for _, p in tests])
    return [
        Comparison(one.metric, other.metric, statistic, p, float(holm))
        for (one, other), (statistic, p), holm in zip(pairs, tests, adjusted, strict=True)
    ]


def _outcomes(real: Floats, chance: Floats, higher_is_better: bool) -> Floats:
    """[3, examples]: which share of the pairs of seeds is won, tied and lost; NaN where no pair is defined."""
    real, chance = np.broadcast_arrays(real[:, None], chance)  # [seeds, random seeds, examples]
    more, less = real > chance, real < chance
    won, lost = (more, less) if higher_is_better else (less, more)
    outcomes = np.where(np.isnan(real) | np.isnan(chance), np.nan, [won, real == chance, lost])
    return np.stack([seeds.mean_over_seeds(one.reshape(-1, one.shape[-1])) for one in outcomes])


def _share(counted: NDArray[Any], known: NDArray[np.bool_]) -> tuple[float, float, float]:
    """What is counted over the known pairs, with its interval. [explainers, examples]

    Examples are drawn, each with all its explainers: pairs that share a random explanation are not independent.
    """
    if not known.any():
        return np.nan, np.nan, np.nan
    counts = np.stack([np.where(known, counted, 0.0).sum(0), known.sum(0)], axis=-1).astype(np.float64)

    def share(means: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            return np.asarray(means[..., 0] / means[..., 1])

    return statistics.bca_of_means(counts, share)


def _sentence(found: Diagnosticity) -> str:
    pairs = found.won + found.tied + found.lost
    if not pairs:
        return f"{found.metric} is undefined on all {found.undefined} pairs."
    _, low, high = found.advantage
    verdict = "" if low > 0 else ", so it does not tell them apart" if high >= 0 else ", so it prefers the random one"
    return (
        f"{found.metric} puts the explanation before a random one in {found.value:.0%} of {pairs:.0f} pairs "
        f"[{found.low:.0%}, {found.high:.0%}], behind it in {found.lost / pairs:.0%}, "
        f"ties in {found.tied / pairs:.0%}{verdict}."
    )


def _means(scores: Mapping[tuple[str, str], ArrayLike], one: Diagnosticity, higher_is_better: bool) -> dict[str, float]:
    """Each explainer's mean score, turned so that more is better."""
    sign = 1 if higher_is_better else -1
    means = {name: _mean(seeds.mean_over_seeds(np.atleast_2d(scores[name, one.metric]))) for name in one.by_explainer}
    return {name: sign * mean for name, mean in means.items() if not np.isnan(mean)}


def _mean(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _agreement(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    shared = [name for name in one if name in other]
    return statistics.kendall_tau([one[name] for name in shared], [other[name] for name in shared])
