"""A cell is the unit of work that is stored, resumed and sent to another machine; a plan is a graph of cells."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from troth.sweep.context import Context

# The version of the file format and of what runners compute for the same specs; part of every cell's name.
FORMAT_VERSION = 3


@dataclass(frozen=True, eq=False)
class Cell:
    """A piece of work: its kind, its specification as plain values, and the names of the cells that it needs.

    >>> Cell("metric", {"metric": "sufficiency"}, ("ab",)) == Cell("metric", {"metric": "sufficiency"}, ("ab",))
    True
    """

    kind: str  # "data", "explanation", "metric", "training", "check", or a study's own kind
    specs: Mapping[str, Any]
    parents: tuple[str, ...] = ()
    runner: str = ""  # the function that computes it: "package.module:function", found by any process on any machine

    def __post_init__(self) -> None:
        if not self.kind.isidentifier():
            raise ValueError(f"the kind of a cell must be one word, not {self.kind!r}")

    @cached_property
    def name(self) -> str:
        """A hash of everything that decides the result; the runner is not part of it."""
        try:
            text = canonical([FORMAT_VERSION, self.kind, self.specs, self.parents])
        except (TypeError, ValueError) as error:
            raise ValueError(f"the specs of a {self.kind} cell must be plain values: {error}") from None
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def canonical(value: Any) -> str:
    """JSON that is the same for equal values."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True, eq=False)
class CellOutput:
    """What a runner returns: the cell's rows, how many passes of the model they took, and the folders it wrote to
    files/.
    """

    table: pa.Table
    forward: int = 0  # rows
    backward: int = 0  # rows
    folders: tuple[str, ...] = ()  # needed by cells that are computed from this one


# Computes a cell, given its parents' tables in order and the worker's context, which is kept between cells.
Runner: TypeAlias = "Callable[[Cell, Sequence[pa.Table], Context], CellOutput]"


@dataclass
class Plan:
    """Cells in topological order: parents come first."""

    cells: dict[str, Cell] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)  # of cells whose rows are known when planning
    # Written to run.json: models and data with their fingerprints, seeds.
    about: dict[str, Any] = field(default_factory=dict)
    # By kind, the function that estimates a cell's time where a trial on a few examples says nothing:
    # "package.module:function", or "" if there is none.
    probes: Mapping[str, str] = field(default_factory=dict)

    def add(self, cell: Cell, table: pa.Table = None) -> Cell:
        """Adds a cell, with its rows if they are known already; a cell that is in the plan is not added twice."""
        self.cells.setdefault(cell.name, cell)
        if table is not None:
            self.tables[cell.name] = table
        return cell

    def of(self, kind: str) -> Iterator[Cell]:
        return (cell for cell in self.cells.values() if cell.kind == kind)

    def __len__(self) -> int:
        return len(self.cells)


# Estimates the seconds of a cell, given the tables known when planning.
CellTimer: TypeAlias = "Callable[[Cell, Mapping[str, pa.Table], Context], float]"


def find_function(path: str) -> Any:
    """The function (a Runner or a CellTimer) named by "package.module:function"."""
    module, _, function = path.partition(":")
    return getattr(import_module(module), function)
