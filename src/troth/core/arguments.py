"""Checks arguments and options of public functions and methods, with a one-line error for a wrong type."""

import inspect
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from numbers import Integral, Real
from os import PathLike
from typing import Any, Literal, ParamSpec, TypeVar

from troth.core.errors import TrothError
from troth.core.user_code import shown

P = ParamSpec("P")
R = TypeVar("R")

_WORDS = {
    str: "text", int: "a whole number", float: "a number", bool: "True or False", Iterable: "a list",
    Mapping: "a mapping", Callable: "a function", PathLike: "a path", dict: "a dict",
}  # fmt: skip

_BYTES = 8  # least number of bytes for one unit of one sample or step


def typed(**words: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Checks the types of arguments against their annotations; what annotations cannot express is left to the
    function.

    `words` describe the expected argument where the names of the types do not.
    """

    def checked(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*arguments: P.args, **options: P.kwargs) -> R:
            signature, kinds = _annotated(function)
            try:
                given = signature.bind(*arguments, **options).arguments
            except TypeError:
                return function(*arguments, **options)  # raises Python's own error for a wrong number of arguments
            for name, value in given.items():
                if not _is_any(value, kinds[name]):
                    known = [_WORDS.get(kind, kind.__name__) for kind in kinds[name] if kind is not types.NoneType]
                    wanted = words.get(name, " or ".join(dict.fromkeys(known)))
                    raise TrothError(f"{name} must be {wanted}, not {_shown(value)}")
            return function(*arguments, **options)

        return call

    return checked


@cache
def _annotated(function: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, list[Any]]]:
    """The types that each argument may have; an empty list if its annotation does not restrict them."""
    signature, hints = inspect.signature(function), typing.get_type_hints(function)
    gathered = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    kinds = {
        name: [] if parameter.kind in gathered else _kinds(hints.get(name, Any))
        for name, parameter in signature.parameters.items()
    }
    return signature, kinds


def _kinds(hint: Any) -> list[Any]:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return list(dict.fromkeys(map(type, parts)))
    if origin in (typing.Union, types.UnionType):
        found = [_kinds(part) for part in parts]
        return [kind for some in found for kind in some] if all(found) else []
    kind = origin or hint
    if hint is Any or not isinstance(kind, type):
        return [Callable] if kind is Callable else []
    if issubclass(kind, Mapping | PathLike | str | bytes) or not issubclass(kind, Iterable) or origin is None:
        return [Mapping if issubclass(kind, Mapping) else PathLike if issubclass(kind, PathLike) else kind]
    return [Iterable]


def _is_any(value: Any, kinds: list[Any]) -> bool:
    if isinstance(value, bool) and kinds:
        return bool in kinds
    # A string is iterable, but is not meant as a list of characters.
    if isinstance(value, str | bytes | bytearray) and kinds:
        return type(value) in kinds or isinstance(value, tuple(kind for kind in kinds if kind is not Iterable))
    numbers = {int: Integral, float: Real}
    return not kinds or any(isinstance(value, numbers.get(kind, kind)) for kind in kinds)


def of_kind(name: str, value: Any, kinds: type | tuple[type, ...], wanted: str) -> None:
    """Rejects a value of any other type; numpy integers count as int, bool does not."""
    allowed = kinds if isinstance(kinds, tuple) else (kinds,)
    whole = int in allowed and isinstance(value, Integral) and not isinstance(value, bool)
    if not whole and not isinstance(value, tuple(kind for kind in allowed if kind is not int)):
        raise TrothError(f"{name} must be {wanted}, not {_shown(value)}")


def iterable(name: str, value: Any, wanted: str) -> None:
    """Rejects values that are not iterable."""
    of_kind(name, value, Iterable, wanted)


def methods(name: str, value: Any) -> None:
    """Rejects anything but a list of methods, a name such as "all", or None."""
    if value is not None:
        iterable(name, value, 'a list such as ["random", …], or "all"')


def _shown(value: Any) -> str:
    return f"{shown(value, 40)} ({type(value).__name__})"


def check_option(name: str, option: str, value: Any, hint: Any) -> None:
    """Raises a one-line error for a value of the wrong type; types that cannot be checked here are left to the
    class.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 1 << 40
    if isinstance(value, int | float) and not abs(value) < memory / _BYTES and option != "seed":
        finite = abs(value) < sys.float_info.max
        each = f"would need {value * _BYTES / 1e12:,.0f} TB" if finite else "is not a number to count with"
        raise TrothError(f"{name}: {option}={value} {each} for each unit of a text; choose a smaller one")
    choices = _choices(hint)
    literals = [choice for choice in choices if not isinstance(choice, type)]
    kinds = tuple(choice for choice in choices if isinstance(choice, type))
    if float in kinds:
        kinds += (int,)
    is_kind = bool(kinds) and isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
    if not choices or value in literals or is_kind:
        return
    wanted = [repr(choice) if isinstance(choice, str) else str(choice) for choice in literals]
    words = {str: "text", int: "a whole number", float: "a number"}
    wanted += [words.get(kind, kind.__name__) for kind in choices if isinstance(kind, type)]
    raise TrothError(f"{name}: {option} must be {' or '.join(wanted)}, not {value!r}")


def _choices(hint: Any) -> list[Any]:
    """The literal values and plain classes that a type hint allows; empty for any other hint."""
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
