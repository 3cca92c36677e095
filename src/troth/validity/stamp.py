"""The validity stamp of a metric: whether the erased inputs it uses are in distribution for the model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from troth.core import catalog, numbers
from troth.maskings import Masking
from troth.metrics import Erasing, Metric
from troth.statistics import simes
from troth.validity.checking import Verdict, verdict

TESTED = "mask_token"


@dataclass(frozen=True)
class Stamp:
    """The p-value over all shares that the metric erases and the share with the lowest one, or the reason why there is
    none.
    """

    p: float | None = None
    ratio: float | None = None
    why: str = ""
    smallest: float | None = None  # the smallest p-value that was possible
    whole: float | None = None  # the p-value of inputs without erased units

    @property
    def verdict(self) -> Verdict | Literal["not tested"]:
        return "not tested" if self.p is None else verdict(self.p)

    @property
    def whole_outside(self) -> bool:
        """Whether inputs are out of distribution before anything is erased, so that masking is not the cause."""
        return self.whole is not None and verdict(self.whole) == "out of distribution"

    def __str__(self) -> str:
        if self.p is None:
            return f"not tested: {self.why}"
        where = "" if self.ratio is None else f", lowest at {numbers.percent(self.ratio)} erased"
        least = "" if self.smallest is None else f"; smallest possible {self.smallest:.2g}"
        already = f"; whole inputs already are, p = {self.whole:.2g}" if self.whole_outside else ""
        return f"{self.verdict} (p = {self.p:.2g}{where}{least}{already})"


def can_be_tested(masking: Masking) -> bool:
    """Whether a test with randomly erased units tells something about the inputs of metrics with this masking."""
    return masking.tested_by_masf and not masking.stochastic


def masking_of(metric: Metric) -> str | None:
    """The name of the masking that a metric uses; None if it erases nothing."""
    return catalog.name_of(metric.perturbation) if isinstance(metric, Erasing) else None


def stamps(
    metrics: Mapping[str, Metric],
    by_ratio: Mapping[float, float],
    why: str,
    smallest: float | None = None,
    tested: str = TESTED,
) -> dict[str, Stamp]:
    """The stamp of every metric, from the p-values of randomly masked inputs or the reason why there are none.

    `tested` describes how those inputs were masked.
    """

    def stamp(metric: Metric) -> Stamp:
        if not isinstance(metric, Erasing):
            return Stamp(why="the metric erases nothing")
        if masking_of(metric) != tested:
            return Stamp(why=_untested(metric.perturbation, tested))
        return replace(_worst(metric, by_ratio), smallest=smallest) if by_ratio else Stamp(why=why)

    return {name: stamp(metric) for name, metric in metrics.items()}


def _untested(masking: Masking, tested: str) -> str:
    name = catalog.name_of(masking)
    if can_be_tested(masking):
        return f"this run checked inputs erased by {tested} only; for others: troth check --masking {name}"
    if masking.tested_by_masf:
        return f"{name} fades units by their scores, the test erases units at random: troth check --masking {name}"
    return f"MaSF says nothing of inputs erased by {name}"


def _worst(metric: Erasing, by_ratio: Mapping[float, float]) -> Stamp:
    """A metric that erases 20 % is judged on inputs with 20 % erased, one that keeps 20 % on inputs with 80 % erased.

    A share between two tested ones is judged by the larger. P-values are combined over shares by Simes, as over
    examples: the lowest of ten p-values is below 0.05 far too often by chance.
    """
    tested = sorted(ratio for ratio in by_ratio if ratio > 0)
    # 1 − 0.8 is slightly more than 0.2 in floating point.
    least, most = (next((ratio for ratio in tested if ratio > share - 1e-9), tested[-1]) for share in metric.erased)
    ratios = [ratio for ratio in tested if least <= ratio <= most]
    worst = min(ratios, key=lambda ratio: by_ratio[ratio])
    return Stamp(float(simes([by_ratio[ratio] for ratio in ratios])), worst, whole=by_ratio.get(0.0))
