"""Names, finds and builds what the folders hold: `integrated_gradients(steps=50)`.

A folder is a catalog and the file's name is the method's name. Nothing is registered: the folder is read. Names and
summaries come from the files as they are written, so a list imports nothing; only `find` and `build` import a file.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import os
import pkgutil
import sys
import types
import typing
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import troth
from troth.core import plugins, spec_text, user_code
from troth.core.errors import TrothError, unknown

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
_TRUTHS = {"true": True, "false": False}
_LONGEST = 10_000  # characters of a spec
_BYTES = 8  # what one unit of one sample or step takes at least
_FOLDERS = {"recipes": "training.recipes", "bases": "training.bases"}


class SelfNamed:
    """A method that brings its own name: a function of the user's, which has no file in a catalog."""

    name: str


class _Entry(NamedTuple):
    class_name: str
    summary: str
    file: Path


def names(kind: str) -> list[str]:
    """Every name in a folder, sorted: the files that hold a dataclass of the file's name; then installed packages'."""
    own = [name for name in _files(kind) if _entry(kind, name) is not None]
    return [*own, *(name for name in plugins.names(kind) if name not in own)]


def summary(kind: str, name: str) -> str:
    """The first paragraph of a file, which says what it is."""
    return plugins.summary(kind, name) if _is_plugin(kind, name) else _known(kind, name).summary


def file(kind: str, name: str) -> Path:
    """The file that holds a method."""
    return _known(kind, name).file


def find(kind: str, name: str) -> type[Any]:
    """The class that a name stands for."""
    if _is_plugin(kind, name):
        return plugins.find(kind, name)
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
    return typing.cast(T, construct(kind, name, options))


def by_spec(kind: str, specs: Iterable[str | T]) -> dict[str, T]:
    """Each object under its spec: the text as it is written, or that of an object."""
    built = [(item, build(kind, item)) for item in specs]
    return {item if isinstance(item, str) else spec(method): method for item, method in built}


def construct(kind: str, name: str, options: Mapping[str, Any]) -> Any:
    """An object of a name and its options, each checked against the class's fields."""
    return construct_of(find(kind, name), name, options)


def construct_of(cls: type[Any], name: str, options: Mapping[str, Any]) -> Any:
    """An object of a class that is called `name` in errors."""
    hints = typing.get_type_hints(cls)
    allowed = {field.name: field for field in dataclasses.fields(cls) if field.init}
    for option, value in options.items():
        if option not in allowed:
            problem = unknown("option", option, allowed)
            raise TrothError(f"{name}: {problem}")
        _check(name, option, value, hints[option])
    missing = [option for option in _required(cls) if option not in options]
    if missing:
        raise TrothError(f"{name}: {missing[0]} must be given: {name}({missing[0]}=…)")
    return cls(**options)


def required(kind: str, name: str) -> list[str]:
    """The options that must be given: the fields of the class that have no default.

    >>> required("explainers", "attributive_masking"), required("explainers", "lime")
    (['checkpoint'], [])
    """
    return _required(find(kind, name))


def _required(cls: type[Any]) -> list[str]:
    fields = dataclasses.fields(cls)
    return [field.name for field in fields if field.init and _default(field) is dataclasses.MISSING]


def parse(spec: str) -> tuple[str, dict[str, Any]]:
    """Name and options of a spec text.

    >>> parse("beam_search(width=50, masking=delete)")
    ('beam_search', {'width': 50, 'masking': 'delete'})
    >>> parse("leave_one_out(absolute=true)")
    ('leave_one_out', {'absolute': True})
    >>> parse("attributive_masking(checkpoint=runs/g)")
    ('attributive_masking', {'checkpoint': 'runs/g'})
    """
    if len(spec) > _LONGEST:
        raise TrothError(f"cannot read {spec[:40]!r}…; a spec has at most {_LONGEST:,} characters, not {len(spec):,}")
    try:
        tree = ast.parse(spec_text.quoted(spec.strip()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last: nested too deeply
        raise TrothError(f"cannot read {spec!r}; write name or name(option=value, …)") from None
    if isinstance(tree, ast.Name):
        return tree.id, {}
    named = [keyword.arg for keyword in tree.keywords] if isinstance(tree, ast.Call) else [None]
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.args or None in named:
        raise TrothError(f"cannot read {spec!r}; write name or name(option=value, …)")
    if len(set(named)) < len(named):
        raise TrothError(f"cannot read {spec!r}; an option is given twice")
    return tree.func.id, {str(keyword.arg): _value(keyword.value, spec) for keyword in tree.keywords}


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
    if not is_ours(cls) and (plugin := plugins.name_of(cls)):
        return plugin
    file = cls.__module__.rsplit(".", 1)[-1]
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in cls.__name__).lstrip("_")
    return file if file.replace("_", "") == cls.__name__.lower() else snake


def is_ours(cls: type[Any]) -> bool:
    """Whether a class comes with troth, so that the version of troth says what it does."""
    return cls.__module__.partition(".")[0] == "troth"


def _is_plugin(kind: str, name: str) -> bool:
    return name in plugins.names(kind) and name not in _files(kind)


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
    summary = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split())
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef) and _is_dataclass(node))
    named = (node.name for node in classes if node.name.lower() == name.replace("_", ""))
    return next((_Entry(class_name, summary, Path(spec.origin)) for class_name in named), None)


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any(ast.unparse(decorator).partition("(")[0] == "dataclass" for decorator in node.decorator_list)


def _value(node: ast.expr, spec: str) -> Any:
    # A bare word is text, except a truth, and a call is a spec in a spec: masking=soft(at=word).
    if isinstance(node, ast.Name):
        return _TRUTHS.get(node.id, node.id)
    try:
        if isinstance(node, ast.Call):
            return ast.unparse(node)
        value = ast.literal_eval(node)
        repr(value)  # a number of thousands of digits cannot be shown
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise TrothError(f"cannot read a value in {spec!r}; use a number, a word or a tuple") from None
    return value


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default


def _check(name: str, option: str, value: Any, hint: Any) -> None:
    """One line for a value of the wrong kind; hints we cannot judge are left to the class."""
    if isinstance(value, int | float) and not abs(value) < _memory() / _BYTES and option != "seed":
        finite = abs(value) < sys.float_info.max
        each = f"would need {value * _BYTES / 1e12:,.0f} TB" if finite else "is not a number to count with"
        raise TrothError(f"{name}: {option}={value} {each} for each unit of a text; choose a smaller one")
    choices = _choices(hint)
    literals = [choice for choice in choices if not isinstance(choice, type)]
    kinds = tuple(choice for choice in choices if isinstance(choice, type))
    if float in kinds:
        kinds += (int,)
    if not choices or value in literals or (kinds and isinstance(value, kinds) and not _stray_bool(value, kinds)):
        return
    wanted = [repr(choice) if isinstance(choice, str) else str(choice) for choice in literals]
    words = {str: "text", int: "a whole number", float: "a number"}
    wanted += [words.get(kind, kind.__name__) for kind in choices if isinstance(kind, type)]
    raise TrothError(f"{name}: {option} must be {' or '.join(wanted)}, not {value!r}")


def _memory() -> int:
    """Bytes this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 1 << 40


def _stray_bool(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, bool) and bool not in kinds


def _choices(hint: Any) -> list[Any]:
    """Literal values and plain classes a hint allows; empty where the hint is anything else."""
    origin = typing.get_origin(hint)
    if origin is Literal:
        return list(typing.get_args(hint))
    if origin in (typing.Union, types.UnionType):
        parts = [_choices(part) for part in typing.get_args(hint)]
        return [choice for part in parts for choice in part] if all(parts) else []
    if hint is type(None):
        return [None]
    if origin is tuple:
        return [tuple]
    return [hint] if isinstance(hint, type) else []
