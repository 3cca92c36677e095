"""Splits long cells into parts, so that no worker is idle while another one computes the last cell.

A part is the same cell for some of its examples. Its rows are never stored by themselves: the concatenated rows of all
parts are the rows of the cell. Where a cell is split depends on the cell alone, so its rows are identical bit for bit
for any number of workers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from troth.store.cells import Cell
from troth.sweep.passes import explains_or_measures, is_own, lengths, may_be_long, methods, passes_of
from troth.sweep.workers import Reply, Task, from_bytes, to_bytes

_PASSES = 4_096  # minimum passes of a part, enough to fill batches


def parts_of(cell: Cell, tables: Sequence[bytes]) -> list[Task]:
    """The tasks of a cell: one, or one per part. User code is not split, because it may use all examples."""
    whole = [Task(cell, tables)]
    if not explains_or_measures(cell.runner) or is_own(cell.specs):
        return whole
    found = methods(cell.specs["explainer_full"], cell.specs.get("metric_full"))
    if found is None or found[0].learns:
        return whole
    table = from_bytes(tables[0]).slice(0, cell.specs.get("first"))
    if not may_be_long(cell.specs, table, 2 * _PASSES):
        return whole
    tasks = [_part(cell, table, begin, end, tables[1:]) for begin, end in _cuts(cell, table)]
    return tasks if len(tasks) > 1 else whole


def _cuts(cell: Cell, table: pa.Table) -> Iterator[tuple[int, int]]:
    """Row ranges with as few rows as reach the minimum number of passes; the remainder joins the last part."""
    passes = [passes_of(cell.specs, count) for count in lengths(cell.specs, table)]
    begin, some, left = 0, 0, sum(passes)
    for place, count in enumerate(passes, start=1):
        some, left = some + count, left - count
        if some >= _PASSES and left >= _PASSES:
            yield begin, place
            begin, some = place, 0
    yield begin, len(passes)


def _part(cell: Cell, table: pa.Table, begin: int, end: int, others: Sequence[bytes]) -> Task:
    specs = {**cell.specs, "examples": end - begin, "rows": [begin, end]}
    return Task(Cell(cell.kind, specs, cell.parents, cell.runner), [to_bytes(table.slice(begin, end - begin)), *others])


@dataclass
class CutCell:
    """A cell that is computed in parts, and the replies to them."""

    cell: Cell
    tasks: Sequence[Task]
    replies: dict[str, Reply] = field(default_factory=dict)  # by the name of the part

    @property
    def names(self) -> list[str]:
        return [task.cell.name for task in self.tasks]

    def joined(self) -> Reply | None:
        """The reply of the cell: an error as soon as a part has one, all rows when all parts are done, else None."""
        for reply in self.replies.values():
            if reply.error or reply.lost:
                return replace(reply, name=self.cell.name)
        if len(self.replies) < len(self.tasks):
            return None
        replies = [self.replies[name] for name in self.names]
        return replace(
            replies[0],
            name=self.cell.name,
            table=to_bytes(pa.concat_tables([from_bytes(reply.table) for reply in replies])),
            seconds=sum(reply.seconds for reply in replies),
            forward=sum(reply.forward for reply in replies),
            backward=sum(reply.backward for reply in replies),
        )
