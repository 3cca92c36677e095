"""The cells whose parents are finished, in an order that spares loading: a worker stays with its model."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from troth.sweep.cells import Cell

Shard = tuple[int, int]  # which of how many, counted from 1


class Ready:
    """A queue by model. A shard takes its own share first and then what others have left."""

    def __init__(self, shard: Shard | None = None) -> None:
        self._shard = shard
        self._queues: tuple[dict[Hashable, deque[Cell]], dict[Hashable, deque[Cell]]] = ({}, {})

    def push(self, cell: Cell, *, first: bool = False) -> None:
        """Adds a cell; `first`, before the others of its model."""
        queues = self._queues[0 if self._mine(cell) else 1]
        queue = queues.setdefault(group(cell), deque())
        if first:
            queue.appendleft(cell)
        else:
            queue.append(cell)

    def pop(self, last: Hashable = None) -> Cell | None:
        """The next cell for a worker whose last one was of this group."""
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
        # By what the cell descends from, so that an explanation and its metrics mostly stay together.
        if self._shard is None:
            return True
        number, count = self._shard
        return int((cell.parents[0] if cell.parents else cell.name)[:8], 16) % count == number - 1


def group(cell: Cell) -> Hashable:
    """Cells that a worker can do without loading another model."""
    return cell.specs.get("model")
