"""JSON values: checks their structure against a dataclass or type hint, and compares two of them.

Fields of a dataclass without a default are required; unknown fields, which a later version may have added, are accepted
unless `strict` is set. Numbers are compared with a tolerance, because they vary between machines.
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from troth.core.user_code import shown

_LARGEST = 1e15  # Parquet's integers are limited, and NaN fails this comparison as well
Path = tuple[Any, ...]  # field names and list indices
Tolerance = Callable[[Path], float]  # the allowed difference between two numbers at a path


class Fault(NamedTuple):
    """A problem in a value, and where it is."""

    place: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place} {self.problem}"


def fault(value: Any, hint: Any, place: str = "it", *, strict: bool = False) -> Fault | None:
    """The first problem in the structure of a value; None if it is valid.

    >>> print(fault({"a": [1, "x"]}, Mapping[str, Sequence[int]]))
    it['a'][1] must be a whole number, not 'x'
    """
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return None
    if dataclasses.is_dataclass(hint):
        return _fault_of_record(value, hint, place, strict)
    if origin in (typing.Union, types.UnionType):
        faults = [fault(value, part, place, strict=strict) for part in parts]
        # If no alternative fits, the problem found deepest in the value is the most informative.
        return None if None in faults else max(filter(None, faults), key=lambda one: len(one.place))
    if origin is Mapping:
        if not isinstance(value, Mapping):
            return Fault(place, f"must be a table, not {shown(value, 40)}")
        return _first(fault(item, parts[1], f"{place}[{key!r}]", strict=strict) for key, item in value.items())
    if origin is Sequence:
        if not isinstance(value, list | tuple):
            return Fault(place, f"must be a list, not {shown(value, 40)}")
        return _first(fault(item, parts[0], f"{place}[{at}]", strict=strict) for at, item in enumerate(value))
    # bool is a subclass of int in Python, but is rejected as a number.
    kinds = (int, float) if hint is float else hint
    if isinstance(value, kinds) and (hint is bool or not isinstance(value, bool)):
        if value is None or isinstance(value, str) or abs(value) < _LARGEST:
            return None
        return Fault(place, f"cannot be {shown(value, 40)}")
    words = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    return Fault(place, f"must be {words.get(hint, hint)}, not {shown(value, 40)}")


def _fault_of_record(value: Any, schema: Any, place: str, strict: bool) -> Fault | None:
    if not isinstance(value, Mapping):
        return Fault(place, f"must be a table, not {shown(value, 40)}")
    hints = typing.get_type_hints(schema)
    for field in dataclasses.fields(schema):
        inside = field.name if place == "it" else f"{place}.{field.name}"
        if field.name in value:
            if wrong := fault(value[field.name], hints[field.name], inside, strict=strict):
                return wrong
        elif field.default is field.default_factory is dataclasses.MISSING:
            return Fault(inside, "is missing")
    unknown = sorted(value.keys() - {field.name for field in dataclasses.fields(schema)}) if strict else []
    return Fault(unknown[0] if place == "it" else f"{place}.{unknown[0]}", "is not a field of it") if unknown else None


def _first(faults: Iterable[Fault | None]) -> Fault | None:
    return next(filter(None, faults), None)


class FieldDifference(NamedTuple):
    """A path and the two values there; a missing value is None, and `what` says so."""

    path: Path
    before: Any
    now: Any
    what: str = ""

    @property
    def place(self) -> str:
        """The path as text, such as explanations[0].proof.chance"""
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return "".join(parts).lstrip(".")


def at(value: Any, path: Path) -> Any:
    """The value at a path."""
    for part in path:
        value = value[part]
    return value


def exact(path: Path) -> float:
    """A tolerance of 0."""
    return 0.0


def differences(before: Any, now: Any, tolerance: Tolerance = exact, path: Path = ()) -> Iterator[FieldDifference]:
    """Every difference between two JSON values.

    >>> [each.place for each in differences({"a": [1, 2.0]}, {"a": [1, 2.5]})]
    ['a[1]']
    """
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in [*before, *(name for name in now if name not in before)]:
            if name not in now or name not in before:
                what = "is not a field of it" if name not in now else "is missing"
                yield FieldDifference((*path, name), before.get(name), now.get(name), what)
            else:
                yield from differences(before[name], now[name], tolerance, (*path, name))
    elif _is_list(before) and _is_list(now):
        if len(before) != len(now):
            yield FieldDifference(path, before, now, f"has {len(before)} entries, not {len(now)}")
        else:
            for place, (one, other) in enumerate(zip(before, now, strict=True)):
                yield from differences(one, other, tolerance, (*path, place))
    elif _is_number(before) and _is_number(now):
        if not (before == now or (before != before and now != now) or abs(before - now) <= tolerance(path)):
            yield FieldDifference(path, before, now)
    elif type(before) is not type(now) or before != now:
        yield FieldDifference(path, before, now)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
