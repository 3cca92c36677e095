"""Methods that say how faithful an attribution is: one file per metric; formulas.py holds their plain arithmetic."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from troth import seeds, statistics
from troth.core import catalog
from troth.core.copies import Ints
from troth.core.errors import TrothError
from troth.core.types import Attribution, Question, Score
from troth.data import Data
from troth.engine.routines import Routine, guard_user_code, is_per_text
from troth.explainers import Explainer
from troth.maskings import Masking
from troth.models import TextClassifier

# Explain again, on what is left of some texts, or of one.
Explain: TypeAlias = Callable[[Sequence[Question]], Routine[list[Attribution]]]
ExplainOne: TypeAlias = Callable[[Question], Routine[Attribution]]

Quality: TypeAlias = Literal["faithfulness", "plausibility", "stability"]


@dataclass(frozen=True)
class Summary:
    """A metric over a data set: the number, its 95 % interval, how many examples it rests on, why others do not.

    Examples of one cluster are averaged first and count as one.
    """

    value: float
    low: float
    high: float
    count: int
    undefined: Mapping[str, int] = field(default_factory=dict)  # reason -> examples
    extra: Mapping[str, Any] = field(default_factory=dict)  # curves and what else a report can show
    seeds: int = 1  # averaged per example before anything else
    spread: float = float("nan")  # standard deviation of the seeds' own numbers


@dataclass(frozen=True)
class Metric(ABC):
    """An instance is its configuration."""

    higher_is_better: ClassVar[bool | None]
    explains_again: ClassVar[bool] = False  # needs the explainer, not only its scores
    needs_label: ClassVar[bool] = False
    needs_decision: ClassVar[bool] = False  # asks what is decided: a model that only gives values is refused
    needs_rationale: ClassVar[bool] = False
    measures: ClassVar[Quality] = "faithfulness"
    pooled: ClassVar[bool] = False  # its summary is computed from all examples together: no mean of their values
    bounds: ClassVar[str] = ""  # the values it can take, for people
    formula: ClassVar[str] = ""  # in the signs of docs/guide/concepts.md
    pitfalls: ClassVar[str] = ""  # what to beware of, in a sentence

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        calls = ("explanations", "passes", "settled", "for_explainer", "summarize", "extra")
        guard_user_code(cls, calls, Score)

    @property
    def divides_by(self) -> str:
        """What its number is relative to, where that can be near 0 and the number then has no bounds."""
        return ""

    @property
    def why_not_deciding(self) -> str:
        """Why it is shown but has no part in the ranking and the verdict; empty where it decides.

        Of a pooled metric the values of the examples are compared, which nothing was divided by.
        """
        if self.measures != "faithfulness":
            return f"{self.measures}, not faithfulness"
        if self.higher_is_better is None:
            return "neither high nor low is better"
        return f"relative to {self.divides_by}, so without bounds" if self.divides_by and not self.pooled else ""

    def explanations(self) -> int:
        """How often it explains again, at most."""
        return 0

    def passes(self, n_units: int) -> int:
        """About how many forward passes it takes itself for a text of so many units; 0 where these are few."""
        return 0

    def settled(self, explainers: Sequence[Explainer], data: Data) -> Self:
        """Itself with the options that were left open chosen once, for all explainers of one table on one data set."""
        return self

    def for_explainer(self, explainer: Explainer) -> Self:
        """Itself with the options that were left open chosen for the explainer whose scores are measured."""
        return self

    def score(
        self, questions: Sequence[Question], attributions: Sequence[Attribution], explain: Explain
    ) -> Routine[list[Score]]:
        """The score of each explanation; that of a text without units is undefined, whatever the metric."""
        some = [place for place, question in enumerate(questions) if question.n_units]
        scores = [undefined(NO_UNITS)] * len(questions)
        if some:
            found = yield from self.ask([questions[i] for i in some], [attributions[i] for i in some], explain)
            for place, score in zip(some, found, strict=True):
                scores[place] = score
        return scores

    @abstractmethod
    def ask(
        self, questions: Sequence[Question], attributions: Sequence[Attribution], explain: Explain
    ) -> Routine[list[Score]]:
        """Probes the model as often as it needs and returns the score of each explanation, of one unit or more.

        Written for one text, with `@per_text` before it: `ask(self, question, attribution, explain) -> Routine[Score]`.
        """

    @property
    def batch_size(self) -> int | None:
        """How many texts it measures in one go: 1 where it is written for one text, None = as many as there are."""
        return 1 if is_per_text(type(self).ask) else None

    def summarize(self, *by_seed: Sequence[Score], clusters: Ints | None = None) -> Summary:
        """The mean over examples with its BCa interval; undefined ones are counted, never averaged away.

        Given several seeds' scores, each of the same examples in the same order, every example is averaged over the
        seeds first, then over its cluster (a number for each example): what is drawn and counted are clusters.
        """
        values = np.array([[score.value for score in scores] for scores in by_seed], np.float64)  # [seeds, examples]
        each = seeds.mean_over_seeds(values, clusters)
        measured = [scores for scores, row in zip(by_seed, values, strict=True) if not np.isnan(row).all()]
        extra = _averaged([self.extra(scores) for scores in measured or by_seed[:1]])
        mean, interval = statistics.mean(each), statistics.bca_interval(each)
        count = int((~np.isnan(each)).sum())
        return Summary(mean, *interval, count, reasons(*by_seed), extra, len(by_seed), seeds.spread(values))

    def extra(self, scores: Sequence[Score]) -> Mapping[str, Any]:
        """What else a report can show of one seed's scores: numbers, or lists of them."""
        return {}


class Erasing(Metric):
    """A metric that asks about inputs of which something is erased; one that does not is a plain Metric."""

    masking: str  # an option of every such metric, with the default of its paper

    def __post_init__(self) -> None:
        catalog.build("maskings", self.masking)  # raises where there is no such masking

    @property
    def perturbation(self) -> Masking:
        """How units are erased."""
        return _masking(self.masking)

    @property
    def erased(self) -> tuple[float, float]:
        """The least and the most of a text that is gone from the inputs asked about, as shares."""
        return (0.0, 1.0)


@cache
def _masking(spec: str) -> Masking:
    """Asked for with every text; reading the catalog takes as long as measuring one."""
    return catalog.build("maskings", spec)


def reasons(*by_seed: Sequence[Score]) -> dict[str, int]:
    """How many examples are undefined, by why; those that only some seeds leave undefined are counted apart."""
    counts: Counter[str] = Counter()
    for scores in zip(*by_seed, strict=True):
        why = [score.why for score in scores if np.isnan(score.value) and score.why != NOT_MEASURED]
        if why:
            partly = any(not np.isnan(score.value) for score in scores)
            counts[f"{why[0] or 'undefined'}{' (in some seeds)' if partly else ''}"] += 1
    return dict(counts)


def defined_records(scores: Sequence[Score]) -> list[Mapping[str, Any]]:
    """The records of the scores that are defined."""
    return [score.record for score in scores if not np.isnan(score.value)]


def _averaged(extras: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The mean over seeds of what each has; words, which say how a seed was measured, as they are."""
    if len(extras) == 1:
        return extras[0]
    by_name = {name: [extra[name] for extra in extras] for name in extras[0]}
    return {
        name: " and ".join(sorted(set(values))) if isinstance(values[0], str) else np.mean(values, axis=0).tolist()
        for name, values in by_name.items()
    }


def require_outputs(metrics: Iterable[Metric], model: TextClassifier) -> None:
    """One line, before any work, for a metric that asks for a decision of a model that gives values."""
    for metric in metrics:
        if metric.needs_decision and model.outputs == "values":
            raise TrothError(
                f"{catalog.name_of(metric)} asks which class is predicted, but {model.name} gives values, not classes; "
                "use comprehensiveness, sufficiency, deletion or recursive_erasure"
            )


def never(questions: Sequence[Question]) -> Routine[list[Attribution]]:
    """The `explain` of a metric that does not explain again."""
    raise AssertionError("a metric that explains again says so: explains_again = True")


NO_UNITS = "the text has no units"
NOT_MEASURED = "not measured with this seed"


def undefined(why: str, **record: Any) -> Score:
    """A score that does not exist, and the reason."""
    return Score(float("nan"), record, why)
