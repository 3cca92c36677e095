"""Whether the erased inputs a metric looks at are in distribution for the model, said beside every number of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from troth import catalog
from troth.metrics import Metric
from troth.validity.checking import LEVEL

Verdict = Literal["in distribution", "out of distribution", "not tested"]
TESTED = "mask_token"  # the masking whose inputs a bench checks


@dataclass(frozen=True)
class Stamp:
    """A p-value, or why there is none."""

    p: float | None = None
    why: str = ""

    @property
    def verdict(self) -> Verdict:
        if self.p is None:
            return "not tested"
        return "in distribution" if self.p >= LEVEL else "out of distribution"

    def __str__(self) -> str:
        if self.p is None:
            return f"not tested: {self.why}"
        return f"{self.verdict} (p = {self.p:.2g})"


def masking_of(metric: Metric) -> str | None:
    """The name of the masking a metric erases with; None where it erases nothing."""
    masking = getattr(metric, "masking", None)
    return None if masking is None else catalog.name_of(catalog.build("maskings", masking))


def stamps(metrics: Mapping[str, Metric], check: Stamp | None) -> dict[str, Stamp]:
    """The stamp of every metric, given that of inputs masked at random."""
    found = {}
    for name, metric in metrics.items():
        masking = masking_of(metric)
        if masking is None:
            found[name] = Stamp(why="the metric erases nothing")
        elif masking != TESTED:
            found[name] = Stamp(why=f"MaSF says nothing of inputs erased by {masking}")
        else:
            found[name] = check or Stamp(why="no check was run")
    return found
