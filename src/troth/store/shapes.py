"""Whether plain values are of the shape that a dataclass or a type hint says, and what is wrong where they are not.

Fields of a dataclass without a default must be there; what a later troth may have added is let through.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

_LARGEST = 1e15  # Parquet's numbers end somewhere, and NaN is not one


def fault(value: Any, hint: Any, place: str = "it") -> str:
    """What is wrong with the shape of a value, and where; nothing where it is right.

    >>> fault({"a": [1, "x"]}, Mapping[str, Sequence[int]])
    "it['a'][1] must be a whole number, not 'x'"
    """
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return ""
    if dataclasses.is_dataclass(hint):
        return _fault_of_record(value, hint, place)
    if origin in (typing.Union, types.UnionType):
        # Where no part fits, the one that got furthest into the value says best what is wrong.
        return "" if not all(whys := [fault(value, part, place) for part in parts]) else max(whys, key=_depth)
    if origin is Mapping:
        if not isinstance(value, Mapping):
            return f"{place} must be a table, not {_short(value)}"
        return next(filter(None, (fault(item, parts[1], f"{place}[{key!r}]") for key, item in value.items())), "")
    if origin is Sequence:
        if not isinstance(value, list | tuple):
            return f"{place} must be a list, not {_short(value)}"
        return next(filter(None, (fault(item, parts[0], f"{place}[{at}]") for at, item in enumerate(value))), "")
    # True and False are whole numbers to Python, to nobody else.
    kinds = (int, float) if hint is float else hint
    if isinstance(value, kinds) and (hint is bool or not isinstance(value, bool)):
        if value is None or isinstance(value, str) or abs(value) < _LARGEST:
            return ""
        return f"{place} cannot be {_short(value)}"
    words = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    return f"{place} must be {words.get(hint, hint)}, not {_short(value)}"


def _fault_of_record(value: Any, schema: Any, place: str) -> str:
    if not isinstance(value, Mapping):
        return f"{place} must be a table, not {_short(value)}"
    hints = typing.get_type_hints(schema)
    for field in dataclasses.fields(schema):
        inside = field.name if place == "it" else f"{place}.{field.name}"
        if field.name in value:
            if why := fault(value[field.name], hints[field.name], inside):
                return why
        elif field.default is field.default_factory is dataclasses.MISSING:
            return f"{inside} is missing"
    return ""


def _depth(why: str) -> int:
    return len(why.partition(" must ")[0])


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"
