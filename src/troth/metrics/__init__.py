"""Metrics, which say how faithful an attribution is: one file per metric; formulas.py has their arithmetic."""

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

# Re-explain erased inputs: several, or one.
Explain: TypeAlias = Callable[[Sequence[Question]], Routine[list[Attribution]]]
ExplainOne: TypeAlias = Callable[[Question], Routine[Attribution]]

Quality: TypeAlias = Literal["faithfulness", "plausibility", "stability"]


@dataclass(frozen=True)
class Summary:
    """A metric over a data set: its value, 95 % interval, number of examples, and why others are undefined.

    Examples of one cluster are averaged first and count as one.
    """

    value: float
    low: float
    high: float
    count: int
    undefined: Mapping[str, int] = field(default_factory=dict)  # reason -> number of examples
    extra: Mapping[str, Any] = field(default_factory=dict)  # curves and other results for reports
    seeds: int = 1  # examples are averaged over seeds before anything else
    spread: float = float("nan")  # standard deviation of the seeds' values


@dataclass(frozen=True)
class Metric(ABC):
    """A measure of attributions. An instance is a configuration."""

    higher_is_better: ClassVar[bool | None]
    explains_again: ClassVar[bool] = False  # needs the explainer, not only the scores
    needs_label: ClassVar[bool] = False
    needs_decision: ClassVar[bool] = False  # uses the predicted class, so models that only return values are rejected
    needs_rationale: ClassVar[bool] = False
    measures: ClassVar[Quality] = "faithfulness"
    pooled: ClassVar[bool] = False  # its summary is computed from all examples together, not as a mean of their values
    bounds: ClassVar[str] = ""  # the range of its values, as text
    formula: ClassVar[str] = ""  # in the notation of docs/guide/concepts.md
    pitfalls: ClassVar[str] = ""  # a known limitation, in one sentence

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        calls = ("explanations", "passes", "settled", "for_explainer", "summarize", "extra")
        guard_user_code(cls, calls, Score)

    @property
    def divides_by(self) -> str:
        """The denominator of the value, if that can be close to 0, so that the value is unbounded; otherwise empty."""
        return ""

    @property
    def why_not_deciding(self) -> str:
        """Why the metric is shown but not used for the ranking and the verdict; empty if it is used.

        For a pooled metric the values of the examples are compared, which are not divided by anything.
        """
        if self.measures != "faithfulness":
            return f"{self.measures}, not faithfulness"
        if self.higher_is_better is None:
            return "neither high nor low is better"
        return f"relative to {self.divides_by}, so without bounds" if self.divides_by and not self.pooled else ""

    def explanations(self) -> int:
        """The maximum number of times each text is explained again."""
        return 0

    def passes(self, n_units: int) -> int:
        """The approximate number of forward passes of the metric itself for a text of this many units; 0 if it is
        small.
        """
        return 0

    def settled(self, explainers: Sequence[Explainer], data: Data) -> Self:
        """The metric with its open options chosen, once for all explainers of a table on one data set."""
        return self

    def for_explainer(self, explainer: Explainer) -> Self:
        """The metric with its open options chosen for the explainer whose scores are measured."""
        return self

    def score(
        self, questions: Sequence[Question], attributions: Sequence[Attribution], explain: Explain
    ) -> Routine[list[Score]]:
        """The score of each explanation; texts without units have an undefined score."""
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
        """Probes the model as often as needed and returns one score per explanation; every text has at least one
        unit.

        A metric for one text is written with `@per_text`: `ask(self, question, attribution, explain) ->
        Routine[Score]`.
        """

    @property
    def batch_size(self) -> int | None:
        """The number of texts measured at a time: 1 for a metric written for one text, None = no limit."""
        return 1 if is_per_text(type(self).ask) else None

    def summarize(self, *by_seed: Sequence[Score], clusters: Ints | None = None) -> Summary:
        """The mean over examples with its BCa interval; undefined examples are counted but not averaged.

        With several seeds (the same examples in the same order), each example is averaged over the seeds first, then
        over its cluster (an index per example); clusters are the unit of resampling and counting.
        """
        values = np.array([[score.value for score in scores] for scores in by_seed], np.float64)  # [seeds, examples]
        each = seeds.mean_over_seeds(values, clusters)
        measured = [scores for scores, row in zip(by_seed, values, strict=True) if not np.isnan(row).all()]
        extra = _averaged([self.extra(scores) for scores in measured or by_seed[:1]])
        mean, interval = statistics.mean(each), statistics.bca_interval(each)
        count = int((~np.isnan(each)).sum())
        return Summary(mean, *interval, count, reasons(*by_seed), extra, len(by_seed), seeds.spread(values))

    def extra(self, scores: Sequence[Score]) -> Mapping[str, Any]:
        """Further results of one seed for reports: numbers, or lists of numbers."""
        return {}


class Erasing(Metric):
    """A metric that reads erased inputs; other metrics extend Metric directly."""

    masking: str  # an option of every such metric; the default follows its paper

    def __post_init__(self) -> None:
        catalog.build("maskings", self.masking)  # raises an error if the masking does not exist

    @property
    def perturbation(self) -> Masking:
        """The masking that erases units."""
        return _masking(self.masking)

    @property
    def erased(self) -> tuple[float, float]:
        """The smallest and the largest fraction of a text that is erased."""
        return (0.0, 1.0)


@cache
def _masking(spec: str) -> Masking:
    """Cached, because it is needed for every text and reading the catalog takes as long as measuring one."""
    return catalog.build("maskings", spec)


def reasons(*by_seed: Sequence[Score]) -> dict[str, int]:
    """The number of undefined examples by reason; examples that are undefined for some seeds only are counted
    separately.
    """
    counts: Counter[str] = Counter()
    for scores in zip(*by_seed, strict=True):
        why = [score.why for score in scores if np.isnan(score.value) and score.why != NOT_MEASURED]
        if why:
            partly = any(not np.isnan(score.value) for score in scores)
            counts[f"{why[0] or 'undefined'}{' (in some seeds)' if partly else ''}"] += 1
    return dict(counts)


def defined_records(scores: Sequence[Score]) -> list[Mapping[str, Any]]:
    """The records of all defined scores."""
    return [score.record for score in scores if not np.isnan(score.value)]


def _averaged(extras: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The mean of each entry over seeds; texts, which describe how a seed was measured, are joined."""
    if len(extras) == 1:
        return extras[0]
    by_name = {name: [extra[name] for extra in extras] for name in extras[0]}
    return {
        name: " and ".join(sorted(set(values))) if isinstance(values[0], str) else np.mean(values, axis=0).tolist()
        for name, values in by_name.items()
    }


def require_outputs(metrics: Iterable[Metric], model: TextClassifier) -> None:
    """Raises an error before any work if a metric needs predicted classes and the model returns values."""
    for metric in metrics:
        if metric.needs_decision and model.outputs == "values":
            raise TrothError(
                f"{catalog.name_of(metric)} asks which class is predicted, but {model.name} gives values, not classes; "
                "use comprehensiveness, sufficiency, deletion or recursive_erasure"
            )


def never(questions: Sequence[Question]) -> Routine[list[Attribution]]:
    """The `explain` of metrics that do not re-explain."""
    raise AssertionError("a metric that explains again says so: explains_again = True")


NO_UNITS = "the text has no units"
NOT_MEASURED = "not measured with this seed"


def undefined(why: str, **record: Any) -> Score:
    """An undefined score with its reason."""
    return Score(float("nan"), record, why)
