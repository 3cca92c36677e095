"""How far a run has come, and what it did."""

from __future__ import annotations

from dataclasses import dataclass

from troth.store.cells import Cell
from troth.store.store import Stored


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    done: int
    total: int
    failed: int
    running: int
    seconds: float
    left: float | None  # seconds, where that can be told
    stopping: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a run did."""

    computed: int = 0
    stored: int = 0  # finished before, or by another process
    failed: tuple[Stored, ...] = ()
    blocked: tuple[Cell, ...] = ()  # a parent failed
    left: int = 0  # not done: the run was stopped, or other processes work on them
    interrupted: bool = False
    seconds: float = 0.0
    notes: tuple[str, ...] = ()  # damaged files, by name

    @property
    def complete(self) -> bool:
        return not (self.failed or self.blocked or self.left)
