"""Metrics supplied by the user: a class or object that extends Metric, a function, or a reference to one in a file.

A function receives what the names of its arguments say, and returns a number, or None if the score is undefined:

    def mine(model, example, attribution): ...  # any of: text, example, model, attribution, target, seed

Higher is better by default; to change this, set `mine.higher_is_better = False`. It measures faithfulness, so it takes
part in verdicts; to change this, set `mine.measures = "plausibility"` or `"stability"`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self, get_args

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Attribution, Question, Score
from troth.core.user_code import calling, shown
from troth.engine.routines import Routine, per_text
from troth.metrics import ExplainOne, Metric, Quality, undefined
from troth.models import TextClassifier
from troth.verbs.own_explainers import names_of_arguments

_ARGUMENTS = ("text", "example", "model", "attribution", "target", "seed")
_BY_PLACE = {1: ("attribution",), 2: ("model", "attribution"), 3: ("model", "example", "attribution")}


@dataclass(frozen=True, eq=False)
class OwnMetric(Metric, catalog.SelfNamed):
    name: str = field(repr=False)
    function: Callable[..., Any] = field(repr=False)
    model: TextClassifier | None = field(default=None, repr=False)

    @classmethod
    def of(cls, name: str, function: Callable[..., Any]) -> Self:
        """The metric of this name; raises an error if the function takes unknown arguments."""
        names_of_arguments(function, name, _ARGUMENTS, _BY_PLACE)
        return cls(name, function)

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]  # the function says it
        better: bool | None = getattr(self.function, "higher_is_better", True)
        return better

    @property
    def measures(self) -> Quality:  # type: ignore[override]
        quality: Quality = getattr(self.function, "measures", "faithfulness")
        if quality not in get_args(Quality):
            raise TrothError(f"{self.name}.measures must be {', '.join(get_args(Quality))}, not {shown(quality)}")
        return quality

    @per_text
    def ask(self, question: Question, attribution: Attribution, explain: ExplainOne) -> Routine[Score]:
        yield from ()
        example = question.encoding.example
        known = {
            "text": example.text, "example": example, "model": self.model, "attribution": attribution,
            "target": question.target, "seed": question.seed,
        }  # fmt: skip
        names = names_of_arguments(self.function, self.name, _ARGUMENTS, _BY_PLACE)
        with calling(self.name, f"example {example.id}, {shown(example.text)}"):
            given = self.function(*(known[name] for name in names))
        if given is None:
            return undefined(f"{self.name} gives no number")
        if isinstance(given, str | bool) or not hasattr(given, "__float__"):
            raise TrothError(f"{self.name}: example {example.id}: it returned {shown(given)}; return a number or None")
        value = float(given)
        return Score(value) if math.isfinite(value) else undefined(f"{self.name} gives {value}")
