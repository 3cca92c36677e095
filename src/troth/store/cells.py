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

# Of the stored files and of what the runners make of the same specs; part of every cell's name.
FORMAT_VERSION = 3


@dataclass(frozen=True, eq=False)
class Cell:
    """What is to be made: a kind, plain specs, and the cells it is made from, by name.

    >>> Cell("metric", {"metric": "sufficiency"}, ("ab",)) == Cell("metric", {"metric": "sufficiency"}, ("ab",))
    True
    """

    kind: str  # "data", "explanation", "metric", "training", "check", or one's own
    specs: Mapping[str, Any]
    parents: tuple[str, ...] = ()
    runner: str = ""  # who carries it out: "package.module:function", which any process on any machine finds

    def __post_init__(self) -> None:
        if not self.kind.isidentifier():
            raise ValueError(f"the kind of a cell must be one word, not {self.kind!r}")

    @cached_property
    def name(self) -> str:
        """A hash of all that decides the result; who carries it out does not."""
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
    """What a runner returns: the cell's rows, what was asked of the model for them, and what it left in files/."""

    table: pa.Table
    forward: int = 0  # rows
    backward: int = 0  # rows
    folders: tuple[str, ...] = ()  # that cells made from this one need


# Carries out a cell, given its parents' tables in their order and what the worker keeps between cells.
Runner: TypeAlias = "Callable[[Cell, Sequence[pa.Table], Context], CellOutput]"


@dataclass
class Plan:
    """Cells in an order in which parents come first."""

    cells: dict[str, Cell] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)  # cells whose rows were known when planning
    about: dict[str, Any] = field(default_factory=dict)  # for run.json: models and data with their fingerprints, seeds
    # By kind, how an estimate finds the time a cell takes, where a try on a few examples says nothing:
    # "package.module:function", or "" where nothing does.
    probes: Mapping[str, str] = field(default_factory=dict)

    def add(self, cell: Cell, table: pa.Table = None) -> Cell:
        """Adds a cell, with its rows where they are known already; a cell that is there is not added twice."""
        self.cells.setdefault(cell.name, cell)
        if table is not None:
            self.tables[cell.name] = table
        return cell

    def of(self, kind: str) -> Iterator[Cell]:
        return (cell for cell in self.cells.values() if cell.kind == kind)

    def __len__(self) -> int:
        return len(self.cells)


# Seconds a cell would take, given the tables known when planning.
CellTimer: TypeAlias = "Callable[[Cell, Mapping[str, pa.Table], Context], float]"


def find_function(path: str) -> Any:
    """The function (a Runner or a CellTimer) that "package.module:function" names."""
    module, _, function = path.partition(":")
    return getattr(import_module(module), function)
