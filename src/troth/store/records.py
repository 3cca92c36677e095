"""The JSON that a run is kept in, one dataclass for each kind of file; what is not of its shape is damaged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from troth.core import reading
from troth.core.errors import TrothError
from troth.core.plain_values import fault


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
class Method:
    """What a name stands for in run.json."""

    spec: str
    code: str | None
    files: str | None = None


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
    methods: Mapping[str, Method] = field(default_factory=dict)  # what their names stand for


@dataclass(frozen=True)
class Owner:
    """claims/NAME"""

    host: str
    pid: str
    started: str
    token: str


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A finished or failed cell, and what it took."""

    name: str
    kind: str
    specs: Mapping[str, Any]
    parents: Sequence[str]
    rows: int = 0
    seconds: float = 0.0
    forward: int = 0  # rows asked of the model
    backward: int = 0
    finished: float = 0.0  # when, in seconds since 1970
    host: str = ""
    folders: Sequence[str] = ()  # in files/, that cells made from this one need
    error: str = ""  # of a failed cell
    traceback: str = field(default="", repr=False)

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self:
        """From what a file says; what a later troth may have added is left out."""
        known = {key: value for key, value in facts.items() if key in cls.__dataclass_fields__}
        return cls(**{**known, "parents": tuple(facts["parents"])})


@dataclass(frozen=True, kw_only=True)
class Finished(Stored):
    """A cell's facts in the footer of a Parquet file."""

    rows: int


@dataclass(frozen=True, kw_only=True)
class Failed(Stored):
    """failed/NAME.json"""

    error: str


def read(path: Path, schema: type[Any]) -> dict[str, Any]:
    """What a file says, known to be of its shape; FileNotFoundError where there is none."""
    value = load(path)
    if wrong := fault(value, schema):
        raise DamagedError(path, str(wrong))
    checked: dict[str, Any] = value
    return checked


def load(path: Path) -> Any:
    """The JSON of a file, of whatever shape."""
    if not path.is_file() and (path.is_symlink() or path.exists()):
        raise DamagedError(path, "a link to nowhere" if not path.exists() else "not a file")
    try:
        return reading.json_of(path)
    except reading.ExcessError as error:
        raise DamagedError(path, str(error)) from None
    except ValueError as error:
        raise DamagedError(path, f"not JSON: {str(error)[:80]}") from None
