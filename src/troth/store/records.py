"""The JSON a run is kept in, one schema for each kind of file; what is not of its shape is damage, and said where.

A schema is a dataclass: fields without a default must be there, what a later troth may have added is let through.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from troth.core.errors import TrothError

_LARGEST = 1e15


class DamagedError(TrothError):
    """A file of the store that is not what was written."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} is damaged ({why}); run the same command again and what it held is computed again")
        self.path, self.why = path, why


@dataclass(frozen=True)
class Subject:
    """A model or data set in run.json."""

    fingerprint: str = ""
    notes: Sequence[str] = ()
    labels: Sequence[str] = ()


@dataclass(frozen=True)
class About:
    """run.json"""

    format: int
    created: str
    models: Mapping[str, Subject] = field(default_factory=dict)
    data: Mapping[str, Subject] = field(default_factory=dict)
    seeds: Sequence[int] = ()
    planned: int = 0
    versions: Mapping[str, Any] = field(default_factory=dict)
    hardware: Mapping[str, Any] = field(default_factory=dict)
    sessions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Finished:
    """A cell's facts in the footer of a Parquet file."""

    name: str
    kind: str
    specs: Mapping[str, Any]
    parents: Sequence[str]
    rows: int
    seconds: float = 0.0
    forward: int = 0
    backward: int = 0
    finished: float = 0.0
    host: str = ""
    folders: Sequence[str] = ()


@dataclass(frozen=True)
class Failed:
    """failed/NAME.json"""

    name: str
    kind: str
    specs: Mapping[str, Any]
    parents: Sequence[str]
    error: str
    traceback: str = ""
    seconds: float = 0.0
    finished: float = 0.0
    host: str = ""


@dataclass(frozen=True)
class Owner:
    """claims/NAME"""

    host: str
    pid: str
    started: str
    token: str


@dataclass(frozen=True)
class Stored:
    """A finished or failed cell, and what it took."""

    name: str
    kind: str
    specs: Mapping[str, Any]
    parents: tuple[str, ...]
    rows: int = 0
    seconds: float = 0.0
    forward: int = 0  # rows asked of the model
    backward: int = 0
    finished: float = 0.0  # when, in seconds since 1970
    host: str = ""
    error: str = ""  # of a failed cell
    traceback: str = field(default="", repr=False)

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Stored:
        """From what a file says; what a later troth may have added is left out."""
        known = {key: value for key, value in facts.items() if key in cls.__dataclass_fields__}
        return cls(**{**known, "parents": tuple(facts["parents"])})


def read(path: Path, schema: type[Any]) -> dict[str, Any]:
    """What a file says, known to be of its shape; FileNotFoundError where there is none."""
    value = load(path)
    if why := fault(value, schema):
        raise DamagedError(path, why)
    checked: dict[str, Any] = value
    return checked


def load(path: Path) -> Any:
    """The JSON of a file, of whatever shape."""
    if not path.is_file() and (path.is_symlink() or path.exists()):
        raise DamagedError(path, "a link to nowhere" if not path.exists() else "not a file")
    try:
        return json.loads(path.read_bytes())
    except RecursionError:
        raise DamagedError(path, "nested too deeply") from None
    except ValueError as error:
        raise DamagedError(path, f"not JSON: {str(error)[:80]}") from None


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
        return next(filter(None, (fault(one, parts[1], f"{place}[{key!r}]") for key, one in value.items())), "")
    if origin is Sequence:
        if not isinstance(value, list | tuple):
            return f"{place} must be a list, not {_short(value)}"
        return next(filter(None, (fault(one, parts[0], f"{place}[{at}]") for at, one in enumerate(value))), "")
    # True and False are whole numbers to Python, to nobody else.
    kinds = (int, float) if hint is float else hint
    if isinstance(value, kinds) and (hint is bool or not isinstance(value, bool)):
        # Parquet's numbers end somewhere, and NaN is none.
        return (
            ""
            if value is None or isinstance(value, str) or abs(value) < _LARGEST
            else f"{place} cannot be {_short(value)}"
        )
    words = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    return f"{place} must be {words.get(hint, hint)}, not {_short(value)}"


def _fault_of_record(value: Any, schema: Any, place: str) -> str:
    if not isinstance(value, Mapping):
        return f"{place} must be a table, not {_short(value)}"
    hints = typing.get_type_hints(schema)
    for one in dataclasses.fields(schema):
        inside = one.name if place == "it" else f"{place}.{one.name}"
        if one.name in value:
            if why := fault(value[one.name], hints[one.name], inside):
                return why
        elif one.default is one.default_factory is dataclasses.MISSING:
            return f"{inside} is missing"
    return ""


def _depth(why: str) -> int:
    return len(why.partition(" must ")[0])


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"
