"""Whether plain values are of the shape that a dataclass or a type hint says, and what is wrong where they are not.

Fields of a dataclass without a default must be there; what a later troth may have added is let through, unless
`strict` says otherwise.
"""

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

_LARGEST = 1e15  # Parquet's numbers end somewhere, and NaN is not one


class Fault(NamedTuple):
    """What is wrong with a value, and where in it."""

    place: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place} {self.problem}"


def fault(value: Any, hint: Any, place: str = "it", *, strict: bool = False) -> Fault | None:
    """What is wrong with the shape of a value; None where it is right.

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
        # Where no part fits, the one that got furthest into the value says best what is wrong.
        return None if None in faults else max(filter(None, faults), key=lambda one: len(one.place))
    if origin is Mapping:
        if not isinstance(value, Mapping):
            return Fault(place, f"must be a table, not {_short(value)}")
        return _first(fault(item, parts[1], f"{place}[{key!r}]", strict=strict) for key, item in value.items())
    if origin is Sequence:
        if not isinstance(value, list | tuple):
            return Fault(place, f"must be a list, not {_short(value)}")
        return _first(fault(item, parts[0], f"{place}[{at}]", strict=strict) for at, item in enumerate(value))
    # True and False are whole numbers to Python, to nobody else.
    kinds = (int, float) if hint is float else hint
    if isinstance(value, kinds) and (hint is bool or not isinstance(value, bool)):
        if value is None or isinstance(value, str) or abs(value) < _LARGEST:
            return None
        return Fault(place, f"cannot be {_short(value)}")
    words = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    return Fault(place, f"must be {words.get(hint, hint)}, not {_short(value)}")


def _fault_of_record(value: Any, schema: Any, place: str, strict: bool) -> Fault | None:
    if not isinstance(value, Mapping):
        return Fault(place, f"must be a table, not {_short(value)}")
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


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"
