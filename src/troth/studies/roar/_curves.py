"""Curves of performance as more and more tokens are erased: RACU, its interval, class leakage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from troth import statistics
from troth.metrics import formulas
from troth.metrics.formulas import Variant
from troth.statistics import Floats
from troth.studies._numbers import Range, estimate
from troth.studies.roar._plan import Way

SHORT = "one-token steps do not lead to 100 %, which RACU is relative to"
FLAT = "performance does not fall when tokens are erased at random (RACU's denominator ≤ 0)"
_SURE = 2.0  # standard errors by which a curve must rise


@dataclass(frozen=True, eq=False)
class Curve:
    """Performance as more and more tokens are erased in the order of one importance measure, and at random."""

    explainer: str
    way: Way
    counted: str  # "share" or "tokens" erased
    places: list[float]  # shares or numbers of tokens, from 0
    performance: Floats  # [seeds, places]
    random: Floats  # [seeds, places]
    tests: int  # examples
    variant: Variant = "paper"

    @property
    def racu(self) -> Floats:
        """[seeds] the area between the curves, relative to the largest there can be."""
        if self.counted != "share":
            return np.full(len(self.performance), np.nan)
        clip = self.variant == "released"
        return np.atleast_1d(formulas.racu(self.places, self.performance, self.random, clip=clip))

    @property
    def acu(self) -> Floats:
        """[seeds] the area between the curves."""
        return np.atleast_1d(formulas.acu(self.places, self.performance, self.random))

    @property
    def faithfulness(self) -> Range:
        """RACU over seeds with its interval; NaN where no seed has one, and `why` says so."""
        return estimate(self.racu)

    @property
    def why(self) -> str:
        """Why a seed has no RACU."""
        if self.counted != "share":
            return SHORT
        return FLAT if np.isnan(self.racu).any() else ""

    @property
    def mean(self) -> list[float]:
        return [float(value) for value in self.performance.mean(0)]

    @property
    def intervals(self) -> list[tuple[float, float]]:
        """Of the mean over seeds, at each place."""
        return [statistics.bca_interval(column) for column in self.performance.T]

    @property
    def rises(self) -> list[float]:
        """Places where more is erased and yet performance is higher: which tokens are masked gives the class away.

        Higher than the lowest point so far by two standard errors, of seeds and of the test examples.
        """
        means = self.performance.mean(0)
        rises = []
        last = len(means) - 1 if self.counted == "share" else len(means)  # at 100 % nothing was chosen
        for place in range(1, last):
            lowest = int(means[:place].argmin())
            rise = self.performance[:, place] - self.performance[:, lowest]
            seeds = rise.var(ddof=1) / len(rise) if len(rise) > 1 else 0.0
            spread = sum(mean * (1 - mean) for mean in means[[place, lowest]]) / self.tests
            if rise.mean() > _SURE * np.sqrt(seeds + spread):
                rises.append(self.places[place])
        return rises

    @property
    def warning(self) -> str:
        """One line where a curve rises, else nothing."""
        if not self.rises:
            return ""
        where = ", ".join(f"{place:.0%}" if self.counted == "share" else f"{place:.0f} tokens" for place in self.rises)
        rises = f"class leakage: with {self.explainer} performance rises at {where}"
        return f"{rises}, so which tokens are masked gives the class away"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        value, low, high = self.faithfulness
        return {
            "explainer": self.explainer,
            "way": self.way,
            "places": self.places,
            "counted": self.counted,
            "performance": self.mean,
            "intervals": [list(interval) for interval in self.intervals],
            "random": [float(mean) for mean in self.random.mean(0)],
            "by_seed": self.performance.tolist(),
            "random_by_seed": self.random.tolist(),
            "racu": value,
            "racu_interval": [low, high],
            "racu_by_seed": self.racu.tolist(),
            "acu": float(self.acu.mean()),
            "why": self.why,
            "rises": self.rises,
        }
