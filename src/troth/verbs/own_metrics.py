"""Metrics supplied by the user: a class or object that extends Metric, a function, or a reference to one in a file.

A function receives what the names of its arguments say, and returns a number, or None if the score is undefined:

    def mine(model, example, attribution): ...  # any of: text, example, model, attribution, target, seed

Higher is better by default; to change this, set `mine.higher_is_better = False`.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from troth.core import catalog, user_code
from troth.core.errors import TrothError
from troth.core.hashing import fingerprint
from troth.core.types import Attribution, Question, Score
from troth.core.user_code import calling, shown
from troth.data import Data
from troth.engine.routines import Routine, per_text
from troth.explainers import Explainer
from troth.metrics import Erasing, ExplainOne, Metric, undefined
from troth.models import TextClassifier
from troth.verbs.own_explainers import names_of_arguments

GivenMetric = str | Metric | type[Metric] | Callable[..., Any]
_ARGUMENTS = ("text", "example", "model", "attribution", "target", "seed")
_BY_PLACE = {1: ("attribution",), 2: ("model", "attribution"), 3: ("model", "example", "attribution")}
_WAYS = "a name such as aopc_comprehensiveness, a metric, or a function (model, example, attribution)"


@dataclass(frozen=True, eq=False)
class OwnMetric(Metric, catalog.SelfNamed):
    name: str = field(repr=False)
    function: Callable[..., Any] = field(repr=False)
    model: TextClassifier | None = field(default=None, repr=False)

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]  # the function says it
        better: bool | None = getattr(self.function, "higher_is_better", True)
        return better

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


@dataclass(frozen=True, eq=False)
class Judge:
    """A metric, with its name in tables and its identity in stored cells."""

    name: str
    metric: Metric
    full: str  # the spec with every option
    code: str | None = None  # fingerprint of user code; None for troth's own metrics
    in_memory: bool = False  # cannot be loaded by other processes

    def settled(self, explainers: Sequence[Explainer], data: Data) -> Self:
        """The same metric, with options that were left open chosen for these explainers and data."""
        chosen = self.metric.settled(explainers, data)
        if chosen is self.metric or chosen == self.metric:
            return self
        before, after = (len(catalog.name_of(metric)) for metric in (self.metric, chosen))
        own = self.full[: len(self.full) - len(catalog.spec(self.metric, full=True)) + before]
        full = own + catalog.spec(chosen, full=True)[after:]
        return replace(self, metric=chosen, name=catalog.spec(chosen), full=full)

    @property
    def facts(self) -> Mapping[str, Any] | None:
        """What a table needs to know about a metric without running its code; None if the catalog has its class."""
        if self.code is None or catalog.is_class("metrics", catalog.name_of(self.metric)):
            return None
        erases = isinstance(self.metric, Erasing)
        return {
            "code": self.code, "higher_is_better": self.metric.higher_is_better, "measures": self.metric.measures,
            "divides_by": self.metric.divides_by, "masking": self.metric.masking if erases else "",  # type: ignore[attr-defined]
            "erased": list(self.metric.erased) if erases else [],  # type: ignore[attr-defined]
        }  # fmt: skip


def judges(given: Iterable[GivenMetric | Judge], home: Path | None = None) -> list[Judge]:
    """Every metric once, by its own name; the code that references point to is run here."""
    unique: dict[str, Judge] = {}
    for thing in given:
        found = thing if isinstance(thing, Judge) else judge(thing, home)
        other = unique.setdefault(found.name, found)
        if (other.full, other.code) != (found.full, found.code):
            if not isinstance(thing, str):
                raise TrothError(f"two metrics are called {found.name!r}; give one of them another name")
            unique[thing] = replace(found, name=thing)
    return list(unique.values())


def judge(thing: GivenMetric, home: Path | None = None) -> Judge:
    """The metric for what a user passed."""
    reference = user_code.read(thing)
    if reference is not None:
        return _from_reference(reference, home or Path.cwd())
    if isinstance(thing, str):
        name, options = catalog.parse(thing)
        offered = catalog.function("metrics", name)
        if offered is None:
            return _of_object(catalog.build("metrics", thing))
        if options:
            raise TrothError(f"{name} is a function and takes no options")
        return replace(_of_function(offered, name), in_memory=False)
    if isinstance(thing, type) and issubclass(thing, Metric):
        thing = _construct(thing, catalog.name_of(thing), {})
    if isinstance(thing, Metric):
        return _of_object(thing)
    if callable(thing) and not isinstance(thing, type):
        return _of_function(thing, getattr(thing, "__name__", "") or catalog.name_of(thing))
    raise TrothError(f"{thing!r} is not a metric; give {_WAYS}")


def by_name(given: Iterable[GivenMetric]) -> dict[str, Metric]:
    """Metrics by name; a metric given as text keeps that text as its name."""
    return {thing if isinstance(thing, str) else judge(thing).name: judge(thing).metric for thing in given}


def _from_reference(reference: user_code.Reference, home: Path) -> Judge:
    thing, text = user_code.load(reference, home), user_code.text_of(reference, home)
    options = catalog.parse(reference.name + reference.options)[1]
    if isinstance(thing, type) and issubclass(thing, Metric):
        thing = _construct(thing, reference.head, options)
    elif options:
        raise TrothError(f"{reference.head} takes no options; only a class of yours that extends Metric does")
    if isinstance(thing, Metric):
        found = _of_object(thing)
        full = reference.head + catalog.spec(thing, full=True).removeprefix(catalog.name_of(thing))
    elif callable(thing) and not isinstance(thing, type):
        found, full = _of_function(thing, reference.name), reference.head
    else:
        raise TrothError(
            f"{reference.head} is a {type(thing).__name__}; it must be a class that extends troth.metrics.Metric, or a "
            "function (model, example, attribution) that returns a number"
        )
    taken = found.name.partition("(")[0] in catalog.names("metrics")
    name = reference.head + reference.options if taken else found.name
    return Judge(name, found.metric, full, fingerprint(thing, text))


def _of_object(metric: Metric) -> Judge:
    name, full = catalog.spec(metric), catalog.spec(metric, full=True)
    if catalog.is_ours(type(metric)) and not isinstance(metric, OwnMetric):
        return Judge(name, metric, full)
    cls = type(metric)
    if not hasattr(cls, "higher_is_better"):
        raise TrothError(f"{cls.__name__} does not say whether higher is better; write higher_is_better = True")
    known = catalog.is_class("metrics", catalog.name_of(metric))
    if not known and cls.summarize is not Metric.summarize:
        raise TrothError(
            f"{cls.__name__} has its own summarize, so a stored run could not be read without its code; "
            'offer it as an entry point of your package: [project.entry-points."troth.metrics"]'
        )
    return Judge(name, metric, full, fingerprint(metric), in_memory=not known)


def _of_function(function: Callable[..., Any], name: str) -> Judge:
    if name == "<lambda>":
        raise TrothError("a lambda has no name; write a function with def")
    if name in catalog.names("metrics") and catalog.function("metrics", name) is not function:
        raise TrothError(f"troth has a metric called {name}; give your function another name")
    names_of_arguments(function, name, _ARGUMENTS, _BY_PLACE)  # raises an error for unknown arguments
    return Judge(name, OwnMetric(name, function), name, fingerprint(function), in_memory=True)


def _construct(cls: type[Any], name: str, options: Mapping[str, Any]) -> Any:
    if not dataclasses.is_dataclass(cls):
        raise TrothError(f"{name} must be a dataclass: write @dataclass(frozen=True) above it")
    with calling(name):
        return catalog.construct(cls, name, options)
