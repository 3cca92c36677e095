"""Names, finds and builds what the folders hold: `integrated_gradients(steps=50)`.

A folder is a catalog and the file's name is the method's name. Nothing is registered: the folder is read. Names and
summaries come from the files as they are written, so a list imports nothing; only `find` and `build` import a file.
Explainers and metrics of installed packages (entry points `troth.explainers`, `troth.metrics`) are found by name, too.
"""

import ast
import dataclasses
import importlib
import inspect
import json
import pkgutil
import re
import typing
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import troth
from troth.core import arguments, user_code
from troth.core.errors import TrothError, unknown
from troth.core.spec_text import parse as parse
from troth.core.user_code import failure, said

T = TypeVar("T")

# Each folder and the word for one thing in it.
KINDS = {
    "explainers": "explainer",
    "metrics": "metric",
    "maskings": "masking",
    "data": "data set",
    "recipes": "recipe",
    "bases": "base",
    "studies": "study",
}
TRIED = Path(__file__).with_name("tried.json")  # costs and models of methods, written by scripts/docs/document.py
_CITATION = re.compile(r"\s*\(([^()]*[A-Za-z][^()]*\b(?:19|20)\d\d[^()]*)\)")
_WITH_PLUGINS = ("explainers", "metrics")  # installed packages may offer more of these
_FOLDERS = {"recipes": "training.recipes", "bases": "training.bases"}


class SelfNamed:
    """A method that brings its own name: a function of the user's, which has no file in a catalog."""

    name: str


class _Entry(NamedTuple):
    class_name: str
    paragraphs: list[str]  # of the file's opening, each in one line
    file: Path


def names(kind: str) -> list[str]:
    """Every name in a folder, sorted: the files that hold a dataclass of the file's name; then installed packages'."""
    own = [name for name in _files(kind) if _entry(kind, name) is not None]
    return [*own, *(name for name in _installed(kind) if name not in own)]


def summary(kind: str, name: str) -> str:
    """The first paragraph of a file, which says what it is; of an installed package's method, where it comes from."""
    if not _is_plugin(kind, name):
        return _known(kind, name).paragraphs[0]
    entry = _installed(kind)[name]
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.module
    return f"From the installed package {package} ({entry.value})."


def file(kind: str, name: str) -> Path:
    """The file that holds a method."""
    return _known(kind, name).file


def paragraphs(kind: str, name: str) -> list[str]:
    """The paragraphs of a file's opening, each in one line; of an installed package's method, those of its code."""
    if _is_plugin(kind, name):
        written = inspect.cleandoc(_plugin(kind, name).__doc__ or "").split("\n\n")
        is_signature = written[0].startswith(f"{_plugin(kind, name).__name__}(")  # which a dataclass writes itself
        own = written[1:] if is_signature else written
        return [summary(kind, name), *(" ".join(part.split()) for part in own if part)]
    return _known(kind, name).paragraphs


def definition(kind: str, name: str) -> tuple[str, str]:
    """What a score means, and the papers named there."""
    first = paragraphs(kind, name)[0]
    return _CITATION.sub("", first), "; ".join(_CITATION.findall(first)) or "–"


def signature(cls: type[Any]) -> list[str]:
    """Every option of a method with its default; … where it must be given."""
    fields = [field for field in dataclasses.fields(cls) if field.init and field.repr]
    return [f"{field.name}={'…' if field.default is dataclasses.MISSING else field.default}" for field in fields]


@cache
def tried(kind: str, name: str) -> dict[str, str]:
    """Cost (passes for a text of n units) and models of a method, where they were tried out."""
    facts: dict[str, str] = json.loads(TRIED.read_text(encoding="utf-8")).get(kind, {}).get(name, {})
    return facts


def function(kind: str, name: str) -> Any:
    """The function that an installed package offers under a name, in place of a class; None for anything else."""
    found = _plugin(kind, name) if kind in _WITH_PLUGINS and _is_plugin(kind, name) else None
    return None if isinstance(found, type) else found


def is_class(kind: str, name: str) -> bool:
    """Whether the catalog has a class of this name, which its name alone builds."""
    return name in names(kind) and function(kind, name) is None


def find(kind: str, name: str) -> type[Any]:
    """The class that a name stands for."""
    if _is_plugin(kind, name):
        found = _plugin(kind, name)
        if not isinstance(found, type):
            raise TrothError(f"{name} is a function of an installed package, not a class")
        return found
    entry = _known(kind, name)
    module = importlib.import_module(f"troth.{_FOLDERS.get(kind, kind)}.{name}")
    cls: type[Any] = getattr(module, entry.class_name)
    return cls


def build(kind: str, spec: str | T) -> T:
    """An object from its spec text; an object that is already built is returned as it is.

    >>> build("maskings", "mask_token")
    MaskToken()
    """
    if not isinstance(spec, str):
        if not dataclasses.is_dataclass(spec) or isinstance(spec, type):
            example = names(kind)[-1]
            raise TrothError(f"{spec!r} is no {KINDS[kind]}; give a name such as {example!r}, or an object")
        return spec
    user_code.refuse(spec)
    name, options = parse(spec)
    return typing.cast(T, construct(find(kind, name), name, options))


def by_spec(kind: str, specs: Iterable[str | T]) -> dict[str, T]:
    """Each object under its spec: the text as it is written, or that of an object."""
    built = [(item, build(kind, item)) for item in specs]
    return {item if isinstance(item, str) else spec(method): method for item, method in built}


def construct(cls: type[Any], name: str, options: Mapping[str, Any]) -> Any:
    """An object of a class that is called `name` in errors; each option is checked against the class's fields."""
    hints = typing.get_type_hints(cls)
    allowed = {field.name: field for field in dataclasses.fields(cls) if field.init}
    given: dict[str, Any] = {}
    for option, value in options.items():
        # The names of other libraries for counts are understood, too: n_steps is steps, n_samples is samples.
        count = option.removeprefix("n_")
        own = count if option not in allowed and count in allowed and hints[count] is int else option
        if own not in allowed:
            problem = unknown("option", option, allowed)
            raise TrothError(f"{name}: {problem}")
        if own in given:
            raise TrothError(f"{name}: n_{own} and {own} are the same option; give one of them")
        given[own] = value
        arguments.check_option(name, own, value, hints[own])
    missing = [option for option in _required(cls) if option not in given]
    if missing:
        raise TrothError(f"{name}: {missing[0]} must be given: {name}({missing[0]}=…)")
    return cls(**given)


def required(kind: str, name: str) -> list[str]:
    """The options that must be given: the fields of the class that have no default.

    >>> required("explainers", "attributive_masking"), required("explainers", "lime")
    (['checkpoint'], [])
    """
    return [] if function(kind, name) is not None else _required(find(kind, name))


def _required(cls: type[Any]) -> list[str]:
    fields = dataclasses.fields(cls)
    return [field.name for field in fields if field.init and _default(field) is dataclasses.MISSING]


def spec(thing: Any, *, full: bool = False) -> str:
    """The spec text of an object: with every option (`full`, what a hash needs) or only those that are not the default.

    >>> spec(build("maskings", "zero"))
    'zero'
    """
    options = []
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name)
        if field.init and field.repr and (full or value != _default(field)):
            text = spec(value, full=full) if dataclasses.is_dataclass(value) else repr(value)
            options.append(f"{field.name}={text}")
    name = name_of(thing)
    return f"{name}({', '.join(options)})" if options else name


def name_of(thing: Any) -> str:
    """The catalog name of an object or class: its file's, or for a class written elsewhere its own in snake case."""
    if isinstance(thing, SelfNamed):
        return thing.name
    cls = thing if isinstance(thing, type) else type(thing)
    if not is_ours(cls):
        for kind in _WITH_PLUGINS:
            for name, entry in _installed(kind).items():
                if entry.value == f"{cls.__module__}:{cls.__qualname__}":
                    return name
    file = cls.__module__.rsplit(".", 1)[-1]
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in cls.__name__).lstrip("_")
    return file if file.replace("_", "") == cls.__name__.lower() else snake


def is_ours(cls: type[Any]) -> bool:
    """Whether a class comes with troth, so that the version of troth says what it does."""
    return cls.__module__.partition(".")[0] == "troth"


def _is_plugin(kind: str, name: str) -> bool:
    return name in _installed(kind) and name not in _files(kind)


@cache
def _installed(kind: str) -> dict[str, EntryPoint]:
    """Methods that installed packages offer as entry points `troth.<kind>`, by name; nothing is imported."""
    found = entry_points(group=f"troth.{kind}") if kind in _WITH_PLUGINS else ()
    return {entry.name: entry for entry in sorted(found, key=lambda entry: entry.name) if entry.name.isidentifier()}


@cache
def _plugin(kind: str, name: str) -> Any:
    """The class or function that a package offers under a name: the user chose to install it, so it may run."""
    entry = _installed(kind)[name]
    try:
        cls = entry.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise failure(f"{name} ({entry.value}) cannot be imported: {said(error)}", error) from error
    if (isinstance(cls, type) and not dataclasses.is_dataclass(cls)) or not callable(cls):
        base = f"a dataclass that extends troth.{kind}'s base"
        raise TrothError(f"{name} ({entry.value}) must be {base}, or a function, not {cls!r}")
    return cls


def _known(kind: str, name: str) -> _Entry:
    entry = _entry(kind, name) if name in _files(kind) else None
    if entry is None:
        raise unknown(KINDS[kind], name, names(kind))
    return entry


def _path(kind: str) -> list[str]:
    """Where a kind's files are; asking its package would import it, and torch with it."""
    return [str(Path(root, *_FOLDERS.get(kind, kind).split("."))) for root in troth.__path__]


def _files(kind: str) -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(_path(kind)) if not module.name.startswith("_"))


@cache
def _entry(kind: str, name: str) -> _Entry | None:
    """What a file holds, read from its source; None where it has no dataclass of its name."""
    spec = PathFinder.find_spec(name, _path(kind))
    if spec is None or spec.origin is None:
        return None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    paragraphs = [" ".join(part.split()) for part in (ast.get_docstring(tree) or "").split("\n\n")]
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name.lower() == name.replace("_", ""):
            decorators = [ast.unparse(each).partition("(")[0] for each in node.decorator_list]
            return _Entry(node.name, paragraphs, Path(spec.origin)) if "dataclass" in decorators else None
    return None


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
