"""The return type of `interactions`: how much two units do together beyond what each does alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from troth.core.sheet import without_nan
from troth.core.types import Attribution

Pair = tuple[int, int, float]  # the indices of two units in reading order, and their interaction


@dataclass(frozen=True)
class Forecast:
    """How well the sum of the scores of the kept units predicts the model's value for a partly erased text, as R²."""

    singles: float  # Shapley values of single units; NaN if the value never changes
    best_singles: float  # the scores of single units that fit the model best (least squares)
    with_pairs: float  # scores of single units and pairs
    maskings: int
    held_out: bool  # evaluated on random maskings that no estimate has seen; False: on all possible maskings


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(Attribution):
    """The Shapley values of single units as `.scores`, and the interactions of pairs of units."""

    pairs: tuple[Pair, ...] = ()  # the strongest first
    errors: tuple[float, ...] = ()  # the standard error of each pair; 0 if its value is exact
    exact: bool = True  # every possible masking was evaluated
    complete: bool = True  # every pair is listed; False: those that a search in half of the maskings found
    maskings: int = 0  # the number of maskings that the values are computed from
    empty: float = 0.0  # the value with all units erased
    forecast: Forecast | None = None  # None for fewer than three units

    @property
    def main_effects(self) -> np.ndarray:
        """[units] The effect of each unit alone: its score minus half of the interactions of its pairs.

        Together with the pairs and `empty` they sum to the value of the whole text: the 2-SII (Bordt & von Luxburg,
        2023).
        """
        alone = self.scores.astype(np.float64)
        for first, second, value in self.pairs:
            alone[[first, second]] -= value / 2
        return alone

    @property
    def clear(self) -> tuple[bool, ...]:
        """Whether the 95 % interval of each pair excludes 0."""
        return tuple(abs(value) > 1.96 * error for (*_, value), error in zip(self.pairs, self.errors, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: that of the attribution, and the pairs."""
        forecast = self.forecast
        more = {
            "pairs": [
                {"units": [first, second], "texts": [self.units[first], self.units[second]], "value": value, "error": e}
                for (first, second, value), e in zip(self.pairs, self.errors, strict=True)
            ],
            "main_effects": self.main_effects.tolist(),
            "index": "SII",
            "exact": self.exact,
            "complete": self.complete,
            "maskings": self.maskings,
            "empty": self.empty,
            "forecast": None if forecast is None else vars(forecast) | {"sentence": self.sentence},
        }
        plain: dict[str, Any] = super().to_dict() | without_nan(more)
        return plain

    @property
    def sentence(self) -> str:
        """The proof in words: how much better pairs predict the values of partly erased texts than single units do."""
        found = self.forecast
        unit = self.question.encoding.unit_kind
        if found is None:
            return ""
        if math.isnan(found.singles):
            return f"The value is the same whichever {unit}s are kept, so no units act together."
        which = (
            f"predict {found.maskings:,} other random ways to erase {unit}s"
            if found.held_out
            else f"describe all {found.maskings:,} ways to erase {unit}s"
        )
        gain = found.with_pairs - found.best_singles
        says = "are needed" if gain >= 0.05 else "add little" if gain > -0.05 else "do not help here"
        return (
            f"Pairs of {unit}s {says}: {unit}s and pairs {which} with R² {found.with_pairs:.2f}, scores of "
            f"single {unit}s with R² {found.best_singles:.2f} at best (Shapley values {found.singles:.2f})."
        ).replace(" -", " −")

    def strongest(self, most: int) -> list[tuple[Pair, float]]:
        """The strongest pairs that differ significantly from 0, each with its standard error."""
        pairs = zip(self.pairs, self.errors, self.clear, strict=True)
        return [(pair, error) for pair, error, clear in pairs if clear and pair[2]][:most]
