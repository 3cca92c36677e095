"""The JSON files of a run, one dataclass per kind of file; a file with another structure is damaged.

run.json holds the format, the versions, hardware and commands of a run, and its models and data with their
fingerprints.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from troth.core import reading
from troth.core.errors import TrothError
from troth.core.files import write_aside
from troth.core.plain_values import fault
from troth.store.cells import FORMAT_VERSION


class DamagedError(TrothError):
    """A file of the store differs from what was written."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} is damaged ({why}); run the same command again and what it held is computed again")
        self.path, self.why = path, why


@dataclass(frozen=True)
class SubjectRecord:
    """A model or data set in run.json."""

    fingerprint: str = ""
    notes: Sequence[str] = ()
    labels: Sequence[str] = ()


@dataclass(frozen=True)
class MethodRecord:
    """The meaning of a method's name in run.json."""

    spec: str
    code: str | None
    files: str | None = None


@dataclass(frozen=True)
class OwnMetricRecord:
    """A metric of the user's own in run.json: what a table needs to know about it without running its code."""

    code: str
    higher_is_better: bool | None
    measures: str = "faithfulness"
    divides_by: str = ""
    masking: str = ""  # of a metric that erases
    erased: Sequence[float] = ()  # the smallest and the largest share of a text that is erased


@dataclass(frozen=True)
class RunRecord:
    """The content of run.json."""

    format: int
    created: str
    models: Mapping[str, SubjectRecord] = field(default_factory=dict)
    data: Mapping[str, SubjectRecord] = field(default_factory=dict)
    seeds: Sequence[int] = ()
    planned: int = 0
    versions: Mapping[str, Any] = field(default_factory=dict)
    hardware: Mapping[str, Any] = field(default_factory=dict)
    sessions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    methods: Mapping[str, MethodRecord] = field(default_factory=dict)  # the meaning of their names
    metrics: Mapping[str, OwnMetricRecord] = field(default_factory=dict)  # the user's own, by name


@dataclass(frozen=True)
class Owner:
    """The content of claims/NAME."""

    host: str
    pid: str
    started: str
    token: str


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A finished or failed cell with its cost."""

    name: str
    kind: str
    specs: Mapping[str, Any]
    parents: Sequence[str]
    rows: int = 0
    seconds: float = 0.0
    forward: int = 0  # rows that the model read
    backward: int = 0
    finished: float = 0.0  # seconds since 1970
    host: str = ""
    folders: Sequence[str] = ()  # in files/, needed by cells that are computed from this one
    error: str = ""  # of a failed cell
    traceback: str = field(default="", repr=False)

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self:
        """Builds the record from a file's content; fields that a later version has added are ignored."""
        known = {key: value for key, value in facts.items() if key in cls.__dataclass_fields__}
        return cls(**{**known, "parents": tuple(facts["parents"])})


@dataclass(frozen=True, kw_only=True)
class FinishedRecord(Stored):
    """The facts about a cell in the footer of a Parquet file."""

    rows: int


@dataclass(frozen=True, kw_only=True)
class FailedRecord(Stored):
    """The content of failed/NAME.json."""

    error: str


def read(path: Path, schema: type[Any]) -> dict[str, Any]:
    """Reads a file and checks its structure; raises FileNotFoundError if there is none."""
    value = load(path)
    if wrong := fault(value, schema):
        raise DamagedError(path, str(wrong))
    checked: dict[str, Any] = value
    return checked


def load(path: Path) -> Any:
    """The JSON of a file, whatever its structure."""
    if not path.is_file() and (path.is_symlink() or path.exists()):
        raise DamagedError(path, "a link to nowhere" if not path.exists() else "not a file")
    try:
        return reading.json_of(path)
    except reading.ExcessError as error:
        raise DamagedError(path, str(error)) from None
    except ValueError as error:
        raise DamagedError(path, f"not JSON: {str(error)[:80]}") from None


def read_run(folder: Path) -> dict[str, Any] | None:
    """The content of run.json; None if there is none yet."""
    path = folder / "run.json"
    try:
        version = _format(load(path))
        if version > FORMAT_VERSION:
            raise TrothError(
                f"{folder} has format {version}, of a newer version of troth; this one reads formats up to "
                f"{FORMAT_VERSION}: "
                "update troth, or use another folder"
            )
        return read(path, RunRecord)
    except (FileNotFoundError, NotADirectoryError):
        return None


def add_to_run(folder: Path, facts: Mapping[str, Any]) -> None:
    """Adds to run.json: mappings and lists are extended, other values replaced."""
    about = read_run(folder) or {"format": FORMAT_VERSION, "created": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
    if _format(about) < FORMAT_VERSION:  # scores of another format mean something else, and both would be in one table
        raise TrothError(
            f"{folder} was written by an earlier version of troth: it can be read, but not "
            "continued; choose a new folder"
        )
    for key, value in facts.items():
        if isinstance(value, Mapping):
            about[key] = {**about.get(key, {}), **value}
        elif isinstance(value, list):
            before = about.get(key, [])
            about[key] = [*before, *(item for item in value if item not in before)]
        else:
            about[key] = value
    write_aside(folder / "run.json", json.dumps(about, indent=2, ensure_ascii=False).encode() + b"\n")


def _format(about: Any) -> int:
    version = about.get("format") if isinstance(about, dict) else None
    return version if isinstance(version, int) else 0


def current(cells: Iterable[Stored], about: Mapping[str, Any] | None) -> list[Stored]:
    """The cells whose methods have the code and options that run.json gives for their names.

    A name may have meant other code or options before; such results stay stored, but are not shown.
    """
    named = (about or {}).get("methods", {})
    shown = []
    for cell in cells:
        now = named.get(cell.specs.get("explainer"))
        stored = tuple(cell.specs.get(f"explainer_{part}") for part in ("full", "code", "files"))
        judged = (about or {}).get("metrics", {}).get(cell.specs.get("metric"))
        if judged is not None and judged["code"] != cell.specs.get("metric_code"):
            continue
        if now is None or stored == (now["spec"], now["code"], now.get("files")):
            shown.append(cell)
    return shown


def own_methods(about: Mapping[str, Any]) -> list[str]:
    """The names of methods that do not come with troth."""
    return [name for name, now in about.get("methods", {}).items() if now["code"] is not None]
