"""The named methods of a table: names, specs, explainers, functions, attributions or references to code.

{"mine": my_function, "captum_ig": attributions, "other": MyExplainer(), "ig": "integrated_gradients(steps=20)"}
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from troth.core import catalog, user_code
from troth.core.errors import TrothError
from troth.core.hashing import fingerprint
from troth.core.types import Attribution
from troth.core.user_code import calling
from troth.explainers import Explainer
from troth.models import TextClassifier
from troth.verbs.own_explainers import OwnAttributions, OwnFunction, arguments_of

Given = str | Explainer | Callable[..., Any] | Sequence[Attribution]
_WAYS = "a name such as leave_one_out, an explainer, a function (model, example) or a list of attributions"


@dataclass(frozen=True, eq=False)
class Method:
    """An explainer, with its name in tables and its identity in stored cells."""

    name: str
    explainer: Explainer
    full: str  # the spec with every option
    code: str | None = None  # fingerprint of user code; None for troth's own methods
    in_memory: bool = False  # cannot be loaded by other processes
    made_in_run: bool = False  # its files come from a cell of the same run, whose name in their path identifies them

    @cached_property
    def files(self) -> str | None:
        """The hash of the files that the explainer reads, once read; None if it reads none that need one."""
        return None if self.made_in_run else self.explainer.files


def methods(given: Iterable[Given | Method] | Mapping[str, Given], home: Path | None = None) -> list[Method]:
    """Every method once, by its own name; the code that references point to is run here."""
    if isinstance(given, Mapping):
        return [_named(name, method(thing, home, name)) for name, thing in given.items()]
    if isinstance(given, str | Explainer) or callable(given):
        given = [given]
    unique: dict[str, Method] = {}
    for thing in given:
        found = thing if isinstance(thing, Method) else method(thing, home)
        other = unique.setdefault(found.name, found)
        if (other.full, other.code) != (found.full, found.code):
            if not isinstance(thing, str):
                raise TrothError(
                    f"two methods are called {found.name!r}; give them different names: {{'mine': …, 'other': …}}}}"
                )
            unique[thing] = dataclasses.replace(found, name=thing)
    return list(unique.values())


def by_name(given: Iterable[Given] | Mapping[str, Given]) -> dict[str, Explainer]:
    """Explainers by name; a method given as text keeps that text as its name."""
    if isinstance(given, Mapping):
        return {each.name: each.explainer for each in methods(given)}
    return {each if isinstance(each, str) else method(each).name: method(each).explainer for each in given}


def usual_explainer(model: TextClassifier) -> str:
    """The default method: gradients if the model exposes its internals, otherwise erasing one unit at a time."""
    return "leave_one_out" if model.erases_only else "integrated_gradients"


def method(thing: Given, home: Path | None = None, name: str = "") -> Method:
    """The method for what a user passed; `name` is its name in tables, by default its own."""
    reference = user_code.read(thing)
    if reference is not None:
        return from_reference(reference, home or Path.cwd(), name)
    if isinstance(thing, str):
        offered = catalog.function("explainers", catalog.parse(thing)[0])
        if offered is not None:
            if catalog.parse(thing)[1]:
                raise TrothError(f"{catalog.parse(thing)[0]} is a function and takes no options")
            own = catalog.parse(thing)[0]
            found = _of_function(offered, own)
            return dataclasses.replace(found, name=name or own, in_memory=False)
        built: Explainer = catalog.build("explainers", thing)
        return _catalogued(built, name)
    if isinstance(thing, type) and issubclass(thing, Explainer):
        thing = _construct(thing, catalog.name_of(thing), {})
    if isinstance(thing, Explainer):
        return _catalogued(thing, name)
    if isinstance(thing, list | tuple):
        return _of_attributions(thing, name)
    if callable(thing):
        return _of_function(thing, name)
    named = f"{name}: " if name else ""
    raise TrothError(f"{named}{thing!r} is not an explainer; give {_WAYS}")


def from_reference(reference: user_code.Reference, home: Path, name: str = "") -> Method:
    """The explainer or function that `file.py:Name` refers to; its code is run."""
    thing = user_code.load(reference, home)
    text = user_code.text_of(reference, home)
    options = catalog.parse(reference.name + reference.options)[1]
    if isinstance(thing, type) and issubclass(thing, Explainer):
        thing = _construct(thing, reference.head, options)
    elif options:
        raise TrothError(f"{reference.head} takes no options; only a class of yours that extends Explainer does")
    if isinstance(thing, Explainer):
        _require_signed(thing)
        full = reference.head + catalog.spec(thing, full=True).removeprefix(catalog.name_of(thing))
        shown = name or _free(catalog.spec(thing), reference)
        return Method(shown, thing, full, fingerprint(thing, text))
    if not callable(thing) or isinstance(thing, type):
        raise TrothError(
            f"{reference.head} is a {type(thing).__name__}; it must be a class that extends "
            "troth.explainers.Explainer, or a function (model, example) that returns scores"
        )
    function = _of_function(thing, name or _free(reference.name, reference))
    return Method(function.name, function.explainer, reference.head, fingerprint(thing, text))


def _of_attributions(given: Sequence[Any], name: str) -> Method:
    wrong = [each for each in given if not isinstance(each, Attribution)]
    if wrong or not given:
        what = f"holds a {type(wrong[0]).__name__}" if wrong else "is empty"
        raise TrothError(f"{name or 'a method'} is a list that {what}; give attributions (Attribution.from_scores)")
    computed = OwnAttributions(name or "attributions", tuple(given))
    return Method(computed.name, computed, computed.name, computed.fingerprint, in_memory=True)


def _of_function(function: Callable[..., Any], name: str) -> Method:
    named = name or getattr(function, "__name__", "") or catalog.name_of(function)
    if named == "<lambda>":
        raise TrothError("a lambda has no name; give it one: {'mine': lambda model, example: …}")
    arguments_of(function, named)  # raises an error for unknown arguments
    return Method(named, OwnFunction(named, function), named, fingerprint(function), in_memory=True)


def _catalogued(explainer: Explainer, name: str) -> Method:
    """An explainer of the catalog, or an object of a user's own class."""
    full = catalog.spec(explainer, full=True)
    shown = name or catalog.spec(explainer)
    if catalog.is_ours(type(explainer)):
        return Method(shown, explainer, full)
    _require_signed(explainer)
    known = catalog.name_of(explainer) in catalog.names("explainers")
    return Method(shown, explainer, full, fingerprint(explainer), in_memory=not known)


def _named(name: Any, found: Method) -> Method:
    if not isinstance(name, str) or not name.strip():
        raise TrothError(f"a method's name must be a string, not {name!r}")
    if name == "random" and found.full != "random":
        raise TrothError(
            "the name random is reserved for the method that all others are compared with; choose another name"
        )
    return dataclasses.replace(found, name=name)


def _construct(cls: type[Any], name: str, options: Mapping[str, Any]) -> Any:
    with calling(name):  # for abstract classes, or classes with their own __init__
        return catalog.construct(cls, name, options)


def _require_signed(explainer: Explainer) -> None:
    if not hasattr(type(explainer), "signed"):
        cls = type(explainer).__name__
        raise TrothError(f"{cls} does not say whether its scores can be negative; write signed: ClassVar[bool] = True")


def _free(name: str, reference: user_code.Reference) -> str:
    """A method's own name, unless the catalog already has that name."""
    taken = name.partition("(")[0] in catalog.names("explainers")
    return reference.head + reference.options if taken else name
