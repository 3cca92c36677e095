"""Which metric can be trusted here? Each is asked to tell real explanations from random ones, and they are compared.

Diagnosticity (Chan et al., 2022) is the share of (explanation, random) pairs a metric orders rightly, over all examples
and explainers, one random explanation an example. Everything is computed from stored scores: one value an example by
(explainer, metric), examples in the same order, NaN where undefined or not measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from troth import statistics
from troth.errors import TrothError
from troth.metrics import formulas
from troth.metrics.formulas import Floats


@dataclass(frozen=True)
class Diagnosticity:
    """How often a metric puts a real explanation before a random one; a tie is not won and told apart."""

    metric: str
    value: float  # won / (won + tied + lost)
    low: float  # 95 % interval over examples
    high: float
    won: int
    tied: int
    lost: int
    undefined: int  # pairs with a NaN, left out
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
    """One metric's scores of each explainer and of one random explanation, an example each in the same order."""
    if not explained:
        raise TrothError(f"{metric}: there is no explainer beside the random one; diagnosticity needs at least one")
    chance = np.asarray(random, np.float64)
    for name, values in explained.items():
        if np.shape(values) != chance.shape:
            raise TrothError(f"{metric}: {name} has {np.size(values)} scores, the random explainer {chance.size}")
    real = np.array(list(explained.values()), np.float64)  # [explainers, examples]
    won, tied, lost, undefined = formulas.diagnosticity_counts(real, chance, higher_is_better)
    ahead, behind = (real > chance, real < chance) if higher_is_better else (real < chance, real > chance)
    known = ~(np.isnan(real) | np.isnan(chance))
    value, low, high = _share(ahead, known)
    each = {
        name: formulas.diagnosticity(row, chance, higher_is_better) for name, row in zip(explained, real, strict=True)
    }
    advantage = _share(ahead.astype(int) - behind, known)
    return Diagnosticity(metric, value, low, high, won, tied, lost, undefined, advantage, each)


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


def compare(found: Sequence[Diagnosticity]) -> list[Comparison]:
    """Wilcoxon's rank-sum test between every two metrics, on their diagnosticity with each explainer."""
    pairs = list(combinations(found, 2))
    tests = [statistics.wilcoxon_rank_sum(*(list(one.by_explainer.values()) for one in pair)) for pair in pairs]
    adjusted = statistics.holm([p for _, p in tests])
    return [
        Comparison(one.metric, other.metric, statistic, p, float(holm))
        for (one, other), (statistic, p), holm in zip(pairs, tests, adjusted, strict=True)
    ]


def _share(counted: NDArray[Any], known: NDArray[np.bool_]) -> tuple[float, float, float]:
    """What is counted over the known pairs, with its interval. [explainers, examples]

    Examples are drawn, each with all its explainers: pairs that share a random explanation are not independent.
    """
    if not known.any():
        return np.nan, np.nan, np.nan
    counts = np.stack([(counted * known).sum(0), known.sum(0)], axis=-1).astype(np.float64)

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
        f"{found.metric} puts the explanation before a random one in {found.value:.0%} of {pairs} pairs "
        f"[{found.low:.0%}, {found.high:.0%}], behind it in {found.lost / pairs:.0%}, "
        f"ties in {found.tied / pairs:.0%}{verdict}."
    )


def _means(scores: Mapping[tuple[str, str], ArrayLike], one: Diagnosticity, higher_is_better: bool) -> dict[str, float]:
    """Each explainer's mean score, turned so that more is better."""
    sign = 1 if higher_is_better else -1
    known = {name: np.asarray(scores[name, one.metric], np.float64) for name in one.by_explainer}
    known = {name: values[~np.isnan(values)] for name, values in known.items()}
    return {name: sign * float(values.mean()) for name, values in known.items() if len(values)}


def _agreement(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    shared = [name for name in one if name in other]
    return statistics.kendall_tau([one[name] for name in shared], [other[name] for name in shared])
