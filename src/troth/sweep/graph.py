"""The dependency graph of a plan: which cells are finished, failed, ready, or wait for their parents.

Ready cells are ordered to avoid loading models: a worker stays with its model.
"""

import re
import zlib
from collections import deque
from collections.abc import Hashable, Sequence

from troth.core.errors import TrothError
from troth.store.cells import Cell, Plan, canonical
from troth.store.store import Store, Stored
from troth.sweep.pace import Remaining

Shard = tuple[int, int]  # (number, count), numbered from 1

_NAME = re.compile(r"[0-9a-f]{32}")  # the name of a cell, or of a folder in files/
_TOGETHER = ("model", "model_options", "data", "recipe", "explainer_full", "seed")


class Graph:
    """The unfinished part of a plan."""

    def __init__(self, plan: Plan, store: Store, shard: Shard | None) -> None:
        failures = {stored.name: stored for stored in store.failed() if stored.name in plan.cells}
        missing = {name: cell for name, cell in plan.cells.items() if not store.has(name)}
        self._files = store.folder / "files"
        self._folders = {
            facts["name"]: facts["folders"] for segment in store.segments() for facts in segment.facts
            if facts.get("folders")
        }  # fmt: skip
        needs = self._needs(plan, [cell for name, cell in missing.items() if name not in failures])
        # Finished cells whose folder is missing, to be computed again.
        self.lost = {name for names in needs.values() for name in names}
        missing |= {name: plan.cells[name] for name in self.lost}
        self.computed = 0
        self.stored = len(plan) - len(missing)  # finished earlier, or by another process
        self.failed: dict[str, Stored] = {}
        self.blocked: dict[str, Cell] = {}  # cells with a failed parent
        self.ready = Ready(shard)
        self.remaining = Remaining(missing.values())
        self._waiting: dict[str, int] = {}  # number of unfinished parents of each unfinished cell
        self._children: dict[str, list[Cell]] = {}
        for name, cell in missing.items():
            if not cell.runner:
                raise TrothError(f"the plan does not say how to compute a {cell.kind}")
            parents = dict.fromkeys((*cell.parents, *needs.get(name, ())))
            awaited = [parent for parent in parents if parent in missing or not store.has(parent)]
            for parent in awaited:
                if parent not in plan.cells:
                    raise TrothError(
                        f"{cell.kind} {name} needs cell {parent}, which is neither in the plan nor in the store"
                    )
                self._children.setdefault(parent, []).append(cell)
            self._waiting[name] = len(awaited)
            if not awaited and name not in failures:
                self.ready.push(cell)
        for name, failure in failures.items():
            self.give_up(plan.cells[name], failure)

    def is_lost(self, name: str) -> bool:
        """Whether a folder that a finished cell wrote to files/ is missing: later cells need it besides its rows."""
        folders = [self._files / folder for folder in self._folders.get(name, ())]
        return not all(folder.is_dir() and any(folder.iterdir()) for folder in folders)

    def _needs(self, plan: Plan, cells: Sequence[Cell]) -> dict[str, set[str]]:
        """For each cell to be computed, the lost cells whose folders it refers to, and recursively their own needs."""
        makers = {
            folder: name for name in self._folders if name in plan.cells and self.is_lost(name)
            for folder in self._folders[name]
        }  # fmt: skip
        needs: dict[str, set[str]] = {}
        waiting = list(cells) if makers else []
        while waiting:
            cell = waiting.pop()
            named = _NAME.findall(canonical([cell.specs, cell.parents]))
            needs[cell.name] = {makers[folder] for folder in named if folder in makers}
            waiting += [plan.cells[name] for name in needs[cell.name] if name not in needs]
        return needs

    @property
    def open(self) -> int:
        """The number of cells that can still be computed."""
        return len(self._waiting)

    def finish(self, cell: Cell, *, stored: bool) -> None:
        """Marks a cell as done: children that become ready go first, while its rows are still in memory."""
        self.stored += stored
        self.computed += not stored
        self._withdraw(cell)
        for child in reversed(self._children.pop(cell.name, [])):
            if child.name in self._waiting:
                self._waiting[child.name] -= 1
                if self._waiting[child.name] == 0:
                    self.ready.push(child, first=True)

    def give_up(self, cell: Cell, failure: Stored) -> None:
        """Marks a cell as failed, and its descendants as blocked."""
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


class Ready:
    """Queues of ready cells, one per group of cells. A shard takes its own cells first, then those of other shards."""

    def __init__(self, shard: Shard | None = None) -> None:
        self._shard = shard
        self._queues: tuple[dict[Hashable, deque[Cell]], dict[Hashable, deque[Cell]]] = ({}, {})

    def push(self, cell: Cell, *, first: bool = False) -> None:
        """Adds a cell, with `first` before the others of its group."""
        queues = self._queues[0 if self._mine(cell) else 1]
        queue = queues.setdefault(group(cell), deque())
        if first:
            queue.appendleft(cell)
        else:
            queue.append(cell)

    def pop(self, last: Hashable = None) -> Cell | None:
        """The next cell for a worker, preferably from the group of its last cell."""
        for queues in self._queues:
            if queues:
                chosen = last if last in queues else max(queues, key=lambda key: len(queues[key]))
                cell = queues[chosen].popleft()
                if not queues[chosen]:
                    del queues[chosen]
                return cell
        return None

    def __len__(self) -> int:
        return sum(len(queue) for queues in self._queues for queue in queues.values())

    def _mine(self, cell: Cell) -> bool:
        if self._shard is None:
            return True
        number, count = self._shard
        return share(cell, count) == number - 1


def share(cell: Cell, count: int) -> int:
    """The index of the shard that a cell belongs to; an explanation and its metrics have the same."""
    key = [cell.specs[name] for name in _TOGETHER if name in cell.specs]
    text = canonical(key) if key else cell.name
    return zlib.crc32(text.encode()) % count


def group(cell: Cell) -> Hashable:
    """The group of a cell: cells of one group use the same model."""
    return cell.specs.get("model")
