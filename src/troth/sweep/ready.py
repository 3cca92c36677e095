"""The cells whose parents are finished, in an order that saves loading: a worker stays with its model."""

import zlib
from collections import deque
from collections.abc import Hashable

from troth.store.cells import Cell, canonical

_TOGETHER = ("model", "model_options", "data", "recipe", "explainer_full", "seed")

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
        """The next cell for a worker, of the group of its last one if there is any."""
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
    """Which of so many shards a cell belongs to; an explanation and its metrics belong to the same."""
    key = [cell.specs[name] for name in _TOGETHER if name in cell.specs]
    text = canonical(key) if key else cell.name
    return zlib.crc32(text.encode()) % count


def group(cell: Cell) -> Hashable:
    """Cells that a worker can do without loading another model."""
    return cell.specs.get("model")
