"""JSON that means one thing: no field twice, no NaN, no number too large to be one."""

from __future__ import annotations

import json
import math
from typing import Any


def loads(data: bytes | str) -> Any:
    """The value; ValueError where it is not JSON or not strict.

    >>> loads('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: the field 'a' is there twice
    """
    return json.loads(data, object_pairs_hook=_once, parse_constant=_refuse, parse_float=_finite)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"the field {name!r} is there twice")
        fields[name] = value
    return fields


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not a number that JSON has")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is too large")
    return value
