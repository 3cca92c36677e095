"""Which explainer is better, on which metric, and with what certainty: the analysis behind both letters and verdict.

Scores are paired by example. A pair is compared by the mean of its differences with Student's t-test, and the interval
is the one of that test: it excludes 0 exactly if the adjusted p-value is below 0.05. Holm's correction covers all pairs
on all deciding metrics together; a metric that does not decide is a family of its own. No p-value may be smaller than
what a sign-flip test could give, 2^(1 − differing examples): a handful of examples proves nothing. Examples are
independent units: a cluster of copies or of one group counts once, by its mean. Differences below the precision of the
model's number format count as zero.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from scipy import special

from troth import statistics
from troth.core import numbers
from troth.report.wording import short_names
from troth.statistics import Floats

RANDOM = "random"  # the explainer to compare with
LEVEL, POWER = 0.05, 0.8
FEWEST = 10  # examples or clusters; with fewer, no difference is significant
MOST = 100_000  # examples; larger samples are not considered feasible

ByMetric = Mapping[str, Mapping[str, Floats]]  # metric -> explainer -> one value per example, in the same order


@dataclass(frozen=True)
class PairedComparison:
    """The first explainer minus the second on one metric."""

    metric: str
    first: str
    second: str
    difference: float
    spread: float  # standard deviation of the differences
    count: int  # examples with a score for both explainers
    differing: int  # examples with different scores for the two
    higher_is_better: bool
    p: float  # two-sided; adjusted if the family is known
    low: float = float("nan")
    high: float = float("nan")
    tests: int = 1  # number of tests in its family
    label: str = ""  # the metric's short name in its table; its spec by default

    @property
    def better(self) -> str | None:
        """The explainer that is significantly better; None if there is none."""
        if not (self.p < LEVEL and self.count >= FEWEST):
            return None
        return self.first if (self.difference > 0) == self.higher_is_better else self.second

    @property
    def size(self) -> float:
        """The difference in units of its standard deviation, positive if the first is better."""
        gain = self.difference if self.higher_is_better else -self.difference
        if self.spread == 0:
            return float(np.sign(gain) * np.inf) if gain else 0.0
        return gain / self.spread

    @property
    def detectable(self) -> float:
        """The smallest difference that this number of examples detects with 80 % power; infinite if it detects none."""
        return self._detectable(self.count)

    @property
    def needed(self) -> float:
        """The approximate number of examples needed to detect a difference of the observed size; infinite beyond
        `MOST`.
        """
        enough, low = MOST, FEWEST - 1
        if not self._detectable(enough) <= abs(self.difference):  # also if the standard deviation is not known
            return float("inf")
        while enough - low > 1:  # the detectable difference decreases with the number of examples
            middle = (enough + low) // 2
            enough, low = (middle, low) if self._detectable(middle) <= abs(self.difference) else (enough, middle)
        return enough

    def _detectable(self, count: int) -> float:
        """Adjusted by the first, strictest step of Holm's correction, because the other p-values are not known."""
        level = LEVEL / self.tests
        differing = count * self.differing / self.count if self.count else 0.0
        if count < FEWEST or _least(differing) > level:
            return float("inf")
        quantiles = special.stdtrit(count - 1, [1 - level / 2, POWER])
        return float(quantiles.sum() * self.spread / np.sqrt(count))

    @property
    def numbers(self) -> str:
        """The difference with its interval and p-value."""
        size = f"{numbers.difference(self.difference)} {numbers.interval(self.low, self.high)}"
        return f"{size} in {self.named}, {numbers.p_value(self.p)}"

    @property
    def named(self) -> str:
        """The name of the metric as it is shown."""
        return self.label or self.metric

    def __str__(self) -> str:
        return f"{self.first} − {self.second}: {self.numbers}"


@dataclass(frozen=True, eq=False)
class Analysis:
    """All comparisons of one table."""

    by_metric: ByMetric
    directions: Mapping[str, bool | None]
    deciding: tuple[str, ...]
    comparisons: Mapping[tuple[str, str, str], PairedComparison]  # metric, first, second
    resolution: float = statistics.resolution()  # smaller differences count as zero

    @classmethod
    def of(
        cls,
        by_metric: ByMetric,
        directions: Mapping[str, bool | None],
        reported: Collection[str] = (),
        resolution: float = statistics.resolution(),
    ) -> Analysis:
        """Compares all pairs of explainers on every metric; metrics that are only `reported` do not decide."""
        deciding = tuple(metric for metric in by_metric if directions[metric] is not None and metric not in reported)
        families = [deciding, *((metric,) for metric in by_metric if metric not in deciding)]
        comparisons = {}
        labels = short_names(by_metric)
        for family in families:
            pairs = (
                (metric, {name: by_metric[metric][name] for name in pair}, directions[metric] is not False)
                for metric in family
                for pair in combinations(by_metric[metric], 2)
            )
            for comparison in corrected(pairs, resolution):
                key = comparison.metric, comparison.first, comparison.second
                comparisons[key] = replace(comparison, label=labels[comparison.metric])
        return cls(by_metric, directions, deciding, comparisons, resolution)

    def between(self, first: str, second: str, metrics: Collection[str] | None = None) -> list[PairedComparison]:
        """Comparisons of the two on all deciding metrics, or on the given ones, the first explainer's best metric
        first.
        """
        pairs = [self._directed(metric, first, second) for metric in (self.deciding if metrics is None else metrics)]
        return sorted((pair for pair in pairs if pair is not None), key=lambda pair: -pair.size)

    def _directed(self, metric: str, first: str, second: str) -> PairedComparison | None:
        if (metric, first, second) in self.comparisons:
            return self.comparisons[metric, first, second]
        turned = self.comparisons.get((metric, second, first))
        if turned is None:
            return None
        return replace(
            turned, first=first, second=second, difference=-turned.difference, low=-turned.high, high=-turned.low
        )

    def is_better(self, first: str, second: str) -> bool:
        """Whether the first is significantly better on some deciding metric, and significantly worse on none."""
        return {pair.better for pair in self.between(first, second)} - {None} == {first}

    @cached_property
    def letters(self) -> dict[str, dict[str, str]]:
        """metric -> explainer -> letters, best mean first; explainers that share a letter do not differ
        significantly.
        """
        found = {}
        for metric, values in self.by_metric.items():
            ordered = statistics.by_mean(values, self.directions[metric] is not False)
            apart = [
                (pair.first, pair.second)
                for pair in self.comparisons.values()
                if pair.metric == metric and pair.better is not None
            ]
            found[metric] = statistics.letters(ordered, apart)
        return found

    def beats(self, opponent: str) -> dict[tuple[str, str], bool]:
        """(explainer, metric) -> whether it is significantly better than the opponent, on metrics with a direction."""
        return {
            (name, metric): pair.better == name
            for metric, values in self.by_metric.items()
            if self.directions[metric] is not None
            for name in values
            if name != opponent and (pair := self._directed(metric, name, opponent)) is not None
        }


def corrected(
    pairs: Iterable[tuple[str, Mapping[str, Floats], bool]], resolution: float = statistics.resolution()
) -> list[PairedComparison]:
    """Compares pairs of (metric, two names with their paired values, whether higher is better), corrected as one
    family.
    """
    raw = []
    for metric, values, better in pairs:
        first, second = values
        raw.append(_compared(metric, first, second, values, better, resolution))
    return _adjusted(raw)


def _compared(
    metric: str, first: str, second: str, values: Mapping[str, Floats], higher_is_better: bool, resolution: float
) -> PairedComparison:
    one, other = values[first], values[second]
    # The precision of scores above 1, such as log-odds, is relative to their magnitude.
    noise = resolution * np.fmax(1.0, np.fmax(abs(one), abs(other)))
    differences = np.where(abs(one - other) < noise, 0.0, one - other)
    differences = differences[~np.isnan(differences)]
    count, differing = len(differences), int(np.count_nonzero(differences))
    difference = float(differences.mean()) if count else float("nan")
    spread = float(differences.std(ddof=1)) if count > 1 else float("nan")
    if not differing:
        p = 1.0 if count else float("nan")
    elif np.isnan(spread):
        p = 1.0
    else:
        p = max(_student(difference, spread, count), _least(differing))
    return PairedComparison(metric, first, second, difference, spread, count, differing, higher_is_better, p)


def _student(difference: float, spread: float, count: int) -> float:
    """The two-sided p-value of the mean difference."""
    if spread == 0:
        return 0.0
    return float(2 * special.stdtr(count - 1, -abs(difference) / spread * np.sqrt(count)))


def _least(differing: float) -> float:
    """The smallest two-sided p-value of a sign-flip test with this number of differing examples."""
    return float(min(1.0, 2.0 ** (1 - differing)))


def _adjusted(family: list[PairedComparison]) -> list[PairedComparison]:
    p = np.array([pair.p for pair in family])
    adjusted = statistics.holm(p) if len(p) else p
    tests = int((~np.isnan(p)).sum())
    place = np.empty(len(p), int)
    place[np.argsort(p, kind="stable")] = np.arange(len(p))
    finished = []
    for pair, after, rank in zip(family, adjusted, place, strict=True):
        low, high = _interval(pair, float(after), max(1, tests - int(rank)))
        finished.append(replace(pair, p=float(after), low=low, high=high, tests=max(1, tests)))
    return finished


def _interval(pair: PairedComparison, adjusted: float, factor: float) -> tuple[float, float]:
    """A confidence interval whose level is chosen so that it excludes 0 exactly if the adjusted p-value is below
    0.05.
    """
    if pair.count < 2 or pair.spread == 0:
        return pair.difference, pair.difference
    alone = _student(pair.difference, pair.spread, pair.count)
    if adjusted >= LEVEL and alone > 0:  # not significant because of an earlier step or the bound of the sign-flip test
        factor = max(factor, 1.001 * LEVEL / alone)
    half = -special.stdtrit(pair.count - 1, LEVEL / factor / 2) * pair.spread / np.sqrt(pair.count)
    return float(pair.difference - half), float(pair.difference + half)
