"""Whether the erased inputs a metric looks at are in distribution for the model, shown with every number of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from troth.core import catalog
from troth.maskings import Masking
from troth.metrics import Erasing, Metric
from troth.statistics import simes
from troth.validity.checking import Verdict, verdict

TESTED = "mask_token"


@dataclass(frozen=True)
class Stamp:
    """The p-value over all shares the metric erases, and the share that looks worst; or why there is none."""

    p: float | None = None
    ratio: float | None = None
    why: str = ""
    smallest: float | None = None  # the smallest p-value the check could have given
    whole: float | None = None  # that of inputs of which nothing is erased

    @property
    def verdict(self) -> Verdict | Literal["not tested"]:
        return "not tested" if self.p is None else verdict(self.p)

    @property
    def whole_outside(self) -> bool:
        """Whether inputs are out of distribution before anything is erased: then masking is not to blame."""
        return self.whole is not None and verdict(self.whole) == "out of distribution"

    def __str__(self) -> str:
        if self.p is None:
            return f"not tested: {self.why}"
        where = "" if self.ratio is None else f", lowest at {self.ratio:.0%} erased"
        least = "" if self.smallest is None else f"; smallest possible {self.smallest:.2g}"
        already = f"; whole inputs already are, p = {self.whole:.2g}" if self.whole_outside else ""
        return f"{self.verdict} (p = {self.p:.2g}{where}{least}{already})"


def can_be_tested(masking: Masking) -> bool:
    """Whether erasing units at random by this masking says something of the inputs that metrics make with it."""
    return masking.tested_by_masf and not masking.stochastic


def masking_of(metric: Metric) -> str | None:
    """The name of the masking a metric erases with; None where it erases nothing."""
    return catalog.name_of(metric.perturbation) if isinstance(metric, Erasing) else None


def stamps(
    metrics: Mapping[str, Metric],
    by_ratio: Mapping[float, float],
    why: str,
    smallest: float | None = None,
    tested: str = TESTED,
) -> dict[str, Stamp]:
    """The stamp of every metric, given the p-values of inputs masked at random, or why there are none.

    `tested` is how those were masked.
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
    """A metric that erases a fifth is not judged by what erasing all does, nor one that keeps a fifth by erasing that.

    A share between two that were tested is judged by the larger. Joined over shares by Simes, as over examples: the
    lowest of ten p-values is below 0.05 far too often by chance.
    """
    tested = sorted(ratio for ratio in by_ratio if ratio > 0)
    # 1 − 0.8 is a little more than 0.2.
    least, most = (next((ratio for ratio in tested if ratio > share - 1e-9), tested[-1]) for share in metric.erased)
    ratios = [ratio for ratio in tested if least <= ratio <= most]
    worst = min(ratios, key=lambda ratio: by_ratio[ratio])
    return Stamp(float(simes([by_ratio[ratio] for ratio in ratios])), worst, whole=by_ratio.get(0.0))
