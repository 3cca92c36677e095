"""Methods that say how faithful an attribution is: one file a metric; formulas.py holds their plain arithmetic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np

from troth import statistics
from troth.looks import Ask
from troth.types import Attribution, Question, Score

if TYPE_CHECKING:
    from troth.data import Data
    from troth.explainers import Explainer

# Explains the same example again, on what is left of it.
Explain: TypeAlias = Callable[[Question], Ask[Attribution]]


@dataclass(frozen=True)
class Summary:
    """A metric over a data set: the number, its 95 % interval, how many examples it rests on, why others do not."""

    value: float
    low: float
    high: float
    count: int
    undefined: Mapping[str, int] = field(default_factory=dict)  # reason -> examples
    extra: Mapping[str, Any] = field(default_factory=dict)  # curves and what else a report can show


@dataclass(frozen=True)
class Metric(ABC):
    """An instance is its configuration."""

    higher_is_better: ClassVar[bool | None]
    explains_again: ClassVar[bool] = False  # needs the explainer, not only its scores
    needs_label: ClassVar[bool] = False
    needs_rationale: ClassVar[bool] = False
    bounds: ClassVar[str] = ""  # the values it can take, for people
    pitfalls: ClassVar[str] = ""  # what to beware of, in a sentence

    def explanations(self) -> int:
        """How often it explains again, at most."""
        return 0

    def settled(self, explainers: Sequence[Explainer], data: Data) -> Self:
        """Itself with the options that were left open chosen once, for all explainers of one table on one data set."""
        return self

    @abstractmethod
    def ask(self, question: Question, attribution: Attribution, explain: Explain) -> Ask[Score]:
        """Looks at the model as often as it needs and returns the score of one explanation."""

    def summarise(self, scores: Sequence[Score]) -> Summary:
        """The mean of the defined scores with its BCa interval; undefined ones are counted, never averaged away."""
        values = np.array([score.value for score in scores], dtype=np.float64)
        known = values[~np.isnan(values)]
        low, high = statistics.bca_interval(known) if len(known) else (np.nan, np.nan)
        return Summary(float(known.mean()) if len(known) else np.nan, low, high, len(known), reasons(scores))


def reasons(scores: Sequence[Score]) -> dict[str, int]:
    """How many scores are undefined, by why."""
    return dict(Counter(score.why or "undefined" for score in scores if np.isnan(score.value)))


NO_UNITS = "the text has no units"


def undefined(why: str, **record: Any) -> Score:
    """A score that does not exist, and the reason."""
    return Score(float("nan"), record, why)
