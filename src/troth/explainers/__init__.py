"""Methods that give every unit a score: one file a method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from troth.looks import LOGITS, Ask, Want
from troth.types import Attribution, Encoding, Question

if TYPE_CHECKING:
    from troth.probing import Prober


@dataclass(frozen=True)
class Explainer(ABC):
    """An instance is its configuration; it holds no model."""

    signed: ClassVar[bool]  # a negative score speaks against the target
    asks_model: ClassVar[bool] = True  # False: importance without a model
    recursive: ClassVar[bool] = False  # its order already takes into account what was erased before: computed once

    def prepare(self, prober: Prober, encodings: Sequence[Encoding]) -> Self:
        """Itself, fitted on the data where the method needs that."""
        return self

    def reads(self) -> Want:
        """What it wants of the whole input: read while the class is chosen, so that this costs no pass of its own."""
        return LOGITS

    def passes(self, n_units: int) -> int:
        """About how many rows it asks of the model for a text of so many units, forwards and backwards."""
        return 2

    @abstractmethod
    def ask(self, question: Question) -> Ask[Attribution]:
        """Looks at the model as often as it needs and returns one score a unit."""
