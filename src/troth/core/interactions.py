"""What `interactions` finds in one text: how much two units do together beyond what each does alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from troth.core.sheet import without_nan
from troth.core.types import Attribution

Pair = tuple[int, int, float]  # the numbers of two units, the first one first in the text, and their interaction


@dataclass(frozen=True)
class Forecast:
    """How well scores, added up over the units that are kept, give the model's value of maskings: R² each."""

    singles: float  # of the Shapley values of single units; NaN where the value never changes
    best_singles: float  # of the scores of single units that fit the model best (least squares)
    with_pairs: float  # of single units and pairs
    maskings: int
    held_out: bool  # the maskings are random ones that no estimate has seen; else they are all there are


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(Attribution):
    """The Shapley values of single units as `.scores`, and the interactions of pairs of units."""

    pairs: tuple[Pair, ...] = ()  # the strongest first
    errors: tuple[float, ...] = ()  # the standard error of each pair; 0 where it is exact
    exact: bool = True  # every masking was asked about
    complete: bool = True  # every pair is listed; else those that a search in half of the maskings found
    maskings: int = 0  # that the values are made of
    empty: float = 0.0  # the value with all units erased
    forecast: Forecast | None = None  # None: fewer than three units

    @property
    def main_effects(self) -> np.ndarray:
        """[units] what each unit does alone: its score without its half of its pairs.

        With the pairs and `empty` they sum to the value of the whole text: the 2-SII (Bordt & von Luxburg, 2023).
        """
        alone = self.scores.astype(np.float64)
        for first, second, value in self.pairs:
            alone[[first, second]] -= value / 2
        return alone

    @property
    def clear(self) -> tuple[bool, ...]:
        """Of each pair, whether its 95 % interval leaves out 0."""
        return tuple(abs(value) > 1.96 * error for (*_, value), error in zip(self.pairs, self.errors, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON: an attribution's, with the pairs."""
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
        """The proof in words: what pairs add to single units when the value of maskings is foretold."""
        found = self.forecast
        unit = self.question.encoding.unit_kind
        if found is None:
            return ""
        if math.isnan(found.singles):
            return f"The value is the same whichever {unit}s are kept, so no units act together."
        which = (
            f"foretell {found.maskings:,} random maskings held out"
            if found.held_out
            else f"describe all {found.maskings:,} maskings"
        )
        gain = found.with_pairs - found.best_singles
        says = "are needed" if gain >= 0.05 else "add little" if gain > -0.05 else "do not help here"
        return (
            f"Pairs of {unit}s {says}: {unit}s and pairs {which} with R² {found.with_pairs:.2f}, scores of "
            f"single {unit}s with R² {found.best_singles:.2f} at best (Shapley values {found.singles:.2f})."
        )

    def strongest(self, most: int) -> list[tuple[Pair, float]]:
        """The strongest pairs that are clearly not 0, each with its standard error."""
        pairs = zip(self.pairs, self.errors, self.clear, strict=True)
        return [(pair, error) for pair, error, clear in pairs if clear and pair[2]][:most]
