"""How far a run has come, what it did, and the bar that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, TextColumn

from troth.core.progress import Bar

if TYPE_CHECKING:
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


def duration(seconds: float) -> str:
    """A time in the usual units.

    >>> duration(4.2), duration(75), duration(7500)
    ('4 s', '1 min 15 s', '2 h 5 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


@contextmanager
def shown(wanted: bool) -> Iterator[Callable[[Any], None] | None]:
    """A bar with the time left, on standard error; what it yields is told how far the run is."""
    if not wanted:
        yield None
        return
    columns = (
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} cells"),
        TextColumn("{task.description}"),
    )
    with Bar(*columns) as line:
        task = line.add_task("planning", total=0)

        def show(now: Any) -> None:
            left = "" if now.left is None else f"{duration(now.left)} left"
            parts = [left, f"{now.failed} failed" if now.failed else "", "stopping …" if now.stopping else ""]
            text = ", ".join(filter(None, parts))
            line.update(task, completed=now.done, total=now.total, description=text)

        yield show
