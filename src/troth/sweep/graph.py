"""Which cells of a plan are finished, failed, ready, or wait for their parents."""

from __future__ import annotations

from troth.core.errors import TrothError
from troth.store.cells import Cell, Plan
from troth.store.store import Store, Stored
from troth.sweep.estimate import Remaining
from troth.sweep.ready import Ready, Shard


class Graph:
    """The unfinished part of a plan."""

    def __init__(self, plan: Plan, store: Store, shard: Shard | None) -> None:
        failures = {stored.name: stored for stored in store.failed() if stored.name in plan.cells}
        missing = {name: cell for name, cell in plan.cells.items() if not store.has(name)}
        self.computed = 0
        self.found = len(plan) - len(missing)  # finished before, or by another process
        self.failed: dict[str, Stored] = {}
        self.blocked: dict[str, Cell] = {}  # a parent failed
        self.ready = Ready(shard)
        self.remaining = Remaining(missing.values())
        self._waiting: dict[str, int] = {}  # how many parents each unfinished cell waits for
        self._children: dict[str, list[Cell]] = {}
        for name, cell in missing.items():
            if cell.kind not in plan.works:
                raise TrothError(f"the plan does not say how a {cell.kind} is carried out")
            awaited = [parent for parent in dict.fromkeys(cell.parents) if not store.has(parent)]
            for parent in awaited:
                if parent not in plan.cells:
                    raise TrothError(f"{cell.kind} {name} is made from cell {parent}, which neither plan nor store has")
                self._children.setdefault(parent, []).append(cell)
            self._waiting[name] = len(awaited)
            if not awaited and name not in failures:
                self.ready.push(cell)
        for name, failure in failures.items():
            self.give_up(plan.cells[name], failure)

    @property
    def open(self) -> int:
        """Cells that can still be done."""
        return len(self._waiting)

    def finish(self, cell: Cell, *, found: bool) -> None:
        """A cell is done: its children may become ready, and come before others, while its rows are in memory."""
        self.found += found
        self.computed += not found
        self._withdraw(cell)
        for child in reversed(self._children.pop(cell.name, [])):
            if child.name in self._waiting:
                self._waiting[child.name] -= 1
                if self._waiting[child.name] == 0:
                    self.ready.push(child, first=True)

    def give_up(self, cell: Cell, failure: Stored) -> None:
        """A cell failed: what is made from it cannot be made."""
        self.failed[cell.name] = failure
        self.blocked.pop(cell.name, None)
        self._withdraw(cell)
        doomed = self._children.pop(cell.name, [])
        while doomed:
            child = doomed.pop()
            if child.name in self._waiting:
                self.blocked[child.name] = child
                self._withdraw(child)
                doomed += self._children.pop(child.name, [])

    def _withdraw(self, cell: Cell) -> None:
        if self._waiting.pop(cell.name, None) is not None:
            self.remaining.remove(cell)
