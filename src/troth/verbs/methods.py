"""Explainers and metrics in every way that a user can name them: names, specs, objects, classes, functions, references
to code, and attributions that were computed elsewhere.

{"mine": my_function, "captum_ig": attributions, "other": MyExplainer(), "ig": "integrated_gradients(steps=20)"}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from troth.core import catalog, user_code
from troth.core.errors import TrothError
from troth.core.hashing import fingerprint
from troth.core.types import Attribution
from troth.core.user_code import calling
from troth.data import Data
from troth.explainers import Explainer
from troth.metrics import Erasing, Metric
from troth.models import TextClassifier
from troth.verbs.own_explainers import OwnAttributions, OwnFunction
from troth.verbs.own_metrics import OwnMetric

M = TypeVar("M", bound=Explainer | Metric)
GivenExplainer = str | Explainer | type[Explainer] | Callable[..., Any] | Sequence[Attribution]
GivenMetric = str | Metric | type[Metric] | Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Method(Generic[M]):
    """An explainer or a metric, with its name in tables and its identity in stored cells."""

    name: str
    instance: M
    full: str  # the spec with every option
    code: str | None = None  # fingerprint of user code; None for troth's own methods
    in_memory: bool = False  # cannot be loaded by other processes
    made_in_run: bool = False  # its files come from a cell of the same run, whose name in their path identifies them

    @cached_property
    def files(self) -> str | None:
        """The hash of the files that an explainer reads, once read; None if it reads none that need one."""
        return self.instance.files if isinstance(self.instance, Explainer) and not self.made_in_run else None


@dataclass(frozen=True)
class Kind(Generic[M]):
    """Explainers or metrics: how what a user passed becomes a method."""

    catalog: str
    base: type[M]
    ways: str  # what can be given
    code: str  # what a reference can name
    wrapped: Callable[[str, Callable[..., Any]], M]  # a method from a name and a function
    declared: Callable[[M], None]  # raises an error if a user's class does not declare what tables need

    def method(self, thing: Any, home: Path | None = None, name: str = "") -> Method[M]:
        """The method for what a user passed; `name` is its name in tables, by default its own."""
        reference = user_code.read(thing)
        if reference is not None:
            return self.from_reference(reference, home or Path.cwd(), name)
        if isinstance(thing, str):
            own, options = catalog.parse(thing)
            offered = catalog.function(self.catalog, own)
            if offered is None:
                return self._of_object(catalog.build(self.catalog, thing), name)
            if options:
                raise TrothError(f"{own} is a function and takes no options")
            return replace(self._of_function(offered, own), name=name or own, in_memory=False)
        if isinstance(thing, type) and issubclass(thing, self.base):
            thing = self._construct(thing, catalog.name_of(thing), {})
        if isinstance(thing, self.base):
            return self._of_object(thing, name)
        if isinstance(thing, list | tuple) and self.base is Explainer:
            return self._of_attributions(thing, name)
        if callable(thing) and not isinstance(thing, type):
            return self._of_function(thing, name)
        named = f"{name}: " if name else ""
        raise TrothError(f"{named}{thing!r} is not {_with_article(self.word)}; give {self.ways}")

    def methods(self, given: Any, home: Path | None = None) -> list[Method[M]]:
        """Every method once, by its own name; the code that references point to is run here."""
        if isinstance(given, Mapping):
            return [_named(name, self.method(thing, home, name)) for name, thing in given.items()]
        if isinstance(given, str | self.base) or callable(given):
            given = [given]
        unique: dict[str, Method[M]] = {}
        for thing in given:
            found = thing if isinstance(thing, Method) else self.method(thing, home)
            other = unique.setdefault(found.name, found)
            if (other.full, other.code) != (found.full, found.code):
                if not isinstance(thing, str):
                    way = "name them: {'mine': …, 'other': …}" if self.base is Explainer else "give one another name"
                    raise TrothError(f"two {self.word}s are called {found.name!r}; {way}")
                unique[thing] = replace(found, name=thing)
        return list(unique.values())

    def by_name(self, given: Iterable[Any] | Mapping[str, Any]) -> dict[str, M]:
        """Explainers or metrics by name; one given as text keeps that text as its name."""
        if isinstance(given, Mapping):
            return {each.name: each.instance for each in self.methods(given)}
        found = [(each, self.method(each)) for each in given]
        return {each if isinstance(each, str) else method.name: method.instance for each, method in found}

    def from_reference(self, reference: user_code.Reference, home: Path, name: str = "") -> Method[M]:
        """The class, object or function that `file.py:Name` refers to; its code is run."""
        thing, text = user_code.load(reference, home), user_code.text_of(reference, home)
        options = catalog.parse(reference.name + reference.options)[1]
        if isinstance(thing, type) and issubclass(thing, self.base):
            thing = self._construct(thing, reference.head, options)
        elif options:
            extends = f"only a class of yours that extends {self.base.__name__} does"
            raise TrothError(f"{reference.head} takes no options; {extends}")
        if isinstance(thing, self.base):
            found, full = self._of_object(thing, ""), catalog.spec(thing, full=True)
            full = reference.head + full.removeprefix(catalog.name_of(thing))
        elif callable(thing) and not isinstance(thing, type):
            own = self._free(reference.name, reference)
            # A function with the name of one of troth's methods is called by its reference.
            found, full = self._of_function(thing, name or own), reference.head
        else:
            raise TrothError(f"{reference.head} is a {type(thing).__name__}; it must be {self.code}")
        return Method(name or self._free(found.name, reference), found.instance, full, fingerprint(thing, text))

    @property
    def word(self) -> str:
        return catalog.KINDS[self.catalog]

    def _of_object(self, thing: M, name: str) -> Method[M]:
        """A method of the catalog, or an object of a user's own class."""
        shown, full = name or catalog.spec(thing), catalog.spec(thing, full=True)
        if catalog.is_ours(type(thing)) and not isinstance(thing, catalog.SelfNamed):
            return Method(shown, thing, full)
        self.declared(thing)
        known = catalog.is_class(self.catalog, catalog.name_of(thing))
        return Method(shown, thing, full, fingerprint(thing), in_memory=not known)

    def _of_function(self, function: Callable[..., Any], name: str) -> Method[M]:
        named = name or getattr(function, "__name__", "") or catalog.name_of(function)
        if named == "<lambda>":
            given = "give it one: {'mine': lambda model, example: …}"
            raise TrothError(
                f"a lambda has no name; {given if self.base is Explainer else 'write a function with def'}"
            )
        taken = not name and named in catalog.names(self.catalog)
        if taken and catalog.function(self.catalog, named) is not function:
            raise TrothError(f"troth has {_with_article(self.word)} called {named}; give your function another name")
        return Method(named, self.wrapped(named, function), named, fingerprint(function), in_memory=True)

    def _of_attributions(self, given: Sequence[Any], name: str) -> Method[Any]:
        wrong = [each for each in given if not isinstance(each, Attribution)]
        if wrong or not given:
            what = f"holds a {type(wrong[0]).__name__}" if wrong else "is empty"
            raise TrothError(f"{name or 'a method'} is a list that {what}; give attributions (Attribution.from_scores)")
        computed = OwnAttributions(name or "attributions", tuple(given))
        return Method(computed.name, computed, computed.name, computed.fingerprint, in_memory=True)

    def _construct(self, cls: type[Any], name: str, options: Mapping[str, Any]) -> Any:
        if not dataclasses.is_dataclass(cls):
            raise TrothError(f"{name} must be a dataclass: write @dataclass(frozen=True) above it")
        with calling(name):  # for abstract classes, or classes with their own __init__
            return catalog.construct(cls, name, options)

    def _free(self, name: str, reference: user_code.Reference) -> str:
        """A method's own name, unless the catalog already has that name."""
        taken = name.partition("(")[0] in catalog.names(self.catalog)
        return reference.head + reference.options if taken else name


def settled(method: Method[Metric], explainers: Sequence[Explainer], data: Data) -> Method[Metric]:
    """The metric with the options that were left open chosen for these explainers and data."""
    chosen = method.instance.settled(explainers, data)
    if chosen is method.instance or chosen == method.instance:
        return method

    def exchanged(text: str, *, full: bool) -> str:
        before, after = (
            catalog.spec(each, full=full).removeprefix(catalog.name_of(each)) for each in (method.instance, chosen)
        )
        head = text.removesuffix(before)
        return text if "(" in head else head + after

    name, full = exchanged(method.name, full=False), exchanged(method.full, full=True)
    return replace(method, instance=chosen, name=name, full=full)


def facts(method: Method[Metric]) -> Mapping[str, Any] | None:
    """What a table needs to know about a metric without running its code; None if the catalog has its class."""
    metric = method.instance
    name = catalog.name_of(metric)
    # Code in a file may have the name of a metric of the catalog.
    if method.code is None or (catalog.is_class("metrics", name) and catalog.find("metrics", name) is type(metric)):
        return None
    erases = isinstance(metric, Erasing)
    return {
        "code": method.code, "higher_is_better": metric.higher_is_better, "measures": metric.measures,
        "divides_by": metric.divides_by, "masking": metric.masking if erases else "",  # type: ignore[attr-defined]
        "erased": list(metric.erased) if erases else [],  # type: ignore[attr-defined]
    }  # fmt: skip


def usual_explainer(model: TextClassifier) -> str:
    """The default method: gradients if the model exposes its internals, otherwise erasing one unit at a time."""
    return "leave_one_out" if model.erases_only else "integrated_gradients"


def _named(name: Any, found: Method[M]) -> Method[M]:
    if not isinstance(name, str) or not name.strip():
        raise TrothError(f"a method's name must be a string, not {name!r}")
    if name == "random" and found.full != "random":
        raise TrothError(
            "the name random is reserved for the method that all others are compared with; choose another name"
        )
    return replace(found, name=name)


def _with_article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def _require_signed(explainer: Explainer) -> None:
    if not hasattr(type(explainer), "signed"):
        cls = type(explainer).__name__
        raise TrothError(f"{cls} does not say whether its scores can be negative; write signed: ClassVar[bool] = True")


def _require_direction(metric: Metric) -> None:
    cls = type(metric)
    if not hasattr(cls, "higher_is_better"):
        raise TrothError(f"{cls.__name__} does not say whether higher is better; write higher_is_better = True")
    if not catalog.is_class("metrics", catalog.name_of(metric)) and cls.summarize is not Metric.summarize:
        raise TrothError(
            f"{cls.__name__} has its own summarize, so a stored run could not be read without its code; "
            'offer it as an entry point of your package: [project.entry-points."troth.metrics"]'
        )


EXPLAINERS: Kind[Explainer] = Kind(
    catalog="explainers",
    base=Explainer,  # type: ignore[type-abstract]
    ways="a name such as leave_one_out, an explainer, a function (model, example) or a list of attributions",
    code="a class that extends troth.explainers.Explainer, or a function (model, example) that returns scores",
    wrapped=OwnFunction.of,
    declared=_require_signed,
)
METRICS: Kind[Metric] = Kind(
    catalog="metrics",
    base=Metric,  # type: ignore[type-abstract]
    ways="a name such as aopc_comprehensiveness, a metric, or a function (model, example, attribution)",
    code="a class that extends troth.metrics.Metric, or a function (model, example, attribution) that returns a number",
    wrapped=OwnMetric.of,
    declared=_require_direction,
)
