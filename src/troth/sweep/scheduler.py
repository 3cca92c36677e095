"""Decides which worker computes which cell and when: parents first, nothing twice, even across processes."""

import os
import signal
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from troth.core.files import CannotWriteError
from troth.core.user_code import calling
from troth.store.cells import Cell, Plan
from troth.store.store import Store, Stored
from troth.sweep.graph import Graph, Shard, group
from troth.sweep.pace import Pace
from troth.sweep.parts import CutCell, parts_of
from troth.sweep.workers import Pool, Reply, Task, from_bytes, to_bytes

GRACE = 10.0  # seconds for running cells to finish after a stop request
_POLL = 1.0  # seconds between two checks for cells finished by other processes
_DEATHS = 3  # a cell counts as failed after this many dead workers
_TABLES = 32  # maximum number of parent tables in memory
_TABLE_BYTES = 256 << 20


@dataclass(frozen=True)
class Progress:
    """The progress of a run."""

    done: int
    total: int
    failed: int
    running: int
    seconds: float
    left: float | None  # estimated remaining seconds, or None
    stopping: bool = False


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run."""

    computed: int = 0
    stored: int = 0  # finished earlier, or by another process
    failed: tuple[Stored, ...] = ()
    blocked: tuple[Cell, ...] = ()  # cells with a failed parent
    left: int = 0  # not done, because the run was stopped or other processes work on them
    interrupted: bool = False
    seconds: float = 0.0
    notes: tuple[str, ...] = ()  # names of damaged files

    @property
    def complete(self) -> bool:
        return not (self.failed or self.blocked or self.left)


@dataclass
class Stop:
    """Whether the run was asked to stop."""

    requested: bool = False


class Scheduler:
    """Assigns the cells of one run to workers and stores the results."""

    def __init__(
        self, plan: Plan, store: Store, retry: bool, shard: Shard | None,
        progress: Callable[[Progress], None] | None, begun: float, repaired: list[str],
    ) -> None:  # fmt: skip
        self.plan, self.store, self.shard, self.progress, self.begun = plan, store, shard, progress, begun
        # It is enough that one shard reads and checks all files.
        self.notes = repaired + (store.check() if shard is None or shard[0] == 1 else [])
        for name, table in plan.tables.items():
            if not store.has(name):
                store.write(plan.cells[name], table)
        if retry:
            store.forget_failures(plan.cells)
        self.graph = Graph(plan, store, shard)
        self.pace = Pace()
        self.running: dict[str, Cell] = {}  # cells and parts of cells that a worker is computing
        self.started: dict[str, float] = {}
        self.cut: dict[str, CutCell] = {}  # by the names of their parts
        self.parts: deque[Task] = deque()  # parts not yet assigned to a worker
        self.elsewhere: list[Cell] = []  # cells claimed by other processes
        self.deaths: Counter[str] = Counter()
        self.tables = _Tables(store)
        self.last: dict[int, Hashable] = {}  # the group of each worker's last cell
        self.interrupted = False

    def carry_out(self, pool: Pool, compact_every: int) -> None:
        """Assigns cells until none is left or a stop is requested."""
        try:
            with _on_request() as stop:
                self._work(pool, compact_every, stop)
                self.interrupted = stop.requested and bool(self.graph.open)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            pool.close()
            for name in {*self.running, *(cut.cell.name for cut in self.cut.values())}:
                self.store.claims.drop(name)

    def _work(self, pool: Pool, compact_every: int, stop: Stop) -> None:
        looked = time.monotonic()
        while self.graph.open:
            if not stop.requested:
                self._hand_out(pool)
            self._report(pool, stop)
            # A shard leaves if only cells claimed by other processes are left; a run without shards waits for the whole
            # table.
            others_do_the_rest = self.shard is not None and 0 < self.graph.open == len(self.elsewhere)
            if not self.running and (stop.requested or others_do_the_rest):
                return
            for reply in pool.collect(_POLL):
                self._settle(reply)
            if not self.running and self.elsewhere:
                time.sleep(max(0.0, looked + _POLL - time.monotonic()))
            if self.elsewhere and time.monotonic() - looked >= _POLL:
                looked = time.monotonic()
                for cell in self.elsewhere:
                    self.graph.ready.push(cell)
                self.elsewhere = []
            if self.store.fresh >= compact_every:
                self.store.compact()

    def _hand_out(self, pool: Pool) -> None:
        for worker in pool.idle():
            task = self._next_task(self.last.get(worker))
            if task is None:
                return
            self.last[worker] = group(task.cell)
            self.running[task.cell.name] = task.cell
            self.started[task.cell.name] = time.monotonic()
            pool.submit(worker, task)

    def _next_task(self, last: Hashable) -> Task | None:
        """The next part of a split cell, or else the next cell or its first part."""
        if not self.parts:
            cell = self._next(last)
            if cell is None:
                return None
            tasks = parts_of(cell, [self.tables.get(parent) for parent in cell.parents])
            if len(tasks) == 1:
                return tasks[0]
            cut = CutCell(cell, tasks)
            self.cut |= dict.fromkeys(cut.names, cut)
            self.parts.extend(tasks)
        return self.parts.popleft()

    def _next(self, last: Hashable) -> Cell | None:
        """The next cell that is neither finished nor claimed by another process."""
        store, graph = self.store, self.graph
        while (cell := graph.ready.pop(last)) is not None:
            if self._is_done(cell):
                graph.finish(cell, stored=True)
            elif not store.claims.take(cell.name):
                self.elsewhere.append(cell)
            elif self._is_done(cell):
                store.claims.drop(cell.name)
                graph.finish(cell, stored=True)
            elif (failure := store.failure(cell.name)) is not None:
                store.claims.drop(cell.name)
                graph.give_up(cell, failure)
            else:
                return cell
        return None

    def _is_done(self, cell: Cell) -> bool:
        """Whether the cell is finished, perhaps by another process in the meantime."""
        return self.store.has_now(cell.name) and not (cell.name in self.graph.lost and self.graph.is_lost(cell.name))

    def _settle(self, reply: Reply) -> None:
        cell = self.running.pop(reply.name)
        cut = self.cut.get(reply.name)
        if cut is None and cell.name not in self.plan.cells:
            return  # a part of a cell that has failed in the meantime
        if reply.lost and self.deaths[cell.name] + 1 < _DEATHS:
            self.deaths[cell.name] += 1
            if cut is None:
                self.graph.ready.push(cell)
                self.store.claims.drop(cell.name)
            else:
                self.parts.extendleft(task for task in cut.tasks if task.cell.name == cell.name)
            return
        if cut is not None:
            cut.replies[reply.name] = reply
            joined = cut.joined()
            if joined is None:
                return
            cell, reply = cut.cell, joined
            self._forget_parts(cut)
        facts = {"seconds": round(reply.seconds, 4), "host": reply.host}
        if reply.lost or reply.error:
            if reply.disk_full:
                raise CannotWriteError(f"{cell.kind} {cell.name}: the disk is full ({reply.error})")
            error = reply.error or f"the worker died {_DEATHS} times at this cell; perhaps memory ran out"
            self.graph.give_up(cell, self.store.fail(cell, error, reply.traceback, facts))
        else:
            cost: dict[str, Any] = {"forward": reply.forward, "backward": reply.backward}
            if reply.folders:
                cost["folders"] = list(reply.folders)
            # The rows of a lost cell are already stored, and other cells were made from them.
            if cell.name not in self.graph.lost:
                self.store.write(cell, from_bytes(reply.table), {**facts, **cost})
            self.tables.keep(cell.name, reply.table)
            self.pace.learn(cell.kind, cell.specs, reply.seconds)
            self.graph.finish(cell, stored=False)
        self.store.claims.drop(cell.name)

    def _forget_parts(self, cut: CutCell) -> None:
        """Discards the parts of a cell whose parts are all done, or of which one has failed."""
        for name in cut.names:
            self.cut.pop(name, None)
        self.parts = deque(task for task in self.parts if task.cell.name not in cut.names)

    def _report(self, pool: Pool, stop: Stop) -> None:
        if self.progress is None:
            return
        graph = self.graph
        progress = Progress(
            done=graph.computed + graph.stored,
            total=len(self.plan),
            failed=len(graph.failed),
            running=len(self.running),
            seconds=time.monotonic() - self.begun,
            left=self._left(pool.size) if graph.computed else None,
            stopping=stop.requested,
        )
        with calling("progress", repr(progress)):
            self.progress(progress)

    def _left(self, workers: int) -> float | None:
        """Estimated remaining seconds, at least those of the longest running cell; time already spent is subtracted."""
        seconds = self.graph.remaining.seconds(self.pace)
        if seconds is None:
            return None
        finished = {name: reply.seconds for cut in self.cut.values() for name, reply in cut.replies.items()}
        seconds -= sum(finished.values())
        now, longest = time.monotonic(), 0.0
        for name, cell in self.running.items():
            expected = self.pace.expect(cell)
            if expected is not None:
                gone = min(now - self.started[name], expected)
                seconds, longest = seconds - gone, max(longest, expected - gone)
        return max(seconds / max(1, min(workers, self.graph.open)), longest)

    def outcome(self) -> Outcome:
        graph = self.graph
        return Outcome(
            computed=graph.computed,
            stored=graph.stored,
            failed=tuple(graph.failed.values()),
            blocked=tuple(graph.blocked.values()),
            left=graph.open,
            interrupted=self.interrupted,
            seconds=time.monotonic() - self.begun,
            notes=tuple(self.notes),
        )


@contextmanager
def _on_request() -> Iterator[Stop]:
    """Handles Ctrl-C and the signal (SIGTERM) that a cluster sends before it stops a machine.

    The first signal requests a stop; a second signal, or `GRACE` seconds, raises KeyboardInterrupt.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    timer = threading.Timer(GRACE, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.daemon = True

    def handle(_number: int, _frame: Any) -> None:
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True
        timer.start()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, handle)
    try:
        yield stop
    finally:
        timer.cancel()
        for number, handler in before.items():
            # None means that the handler was installed outside of Python, so it was never replaced.
            if handler is not None:
                signal.signal(number, handler)


class _Tables:
    """A cache of parent tables as bytes that keeps the most recently used ones."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    def get(self, name: str) -> bytes:
        if name not in self._kept:
            self.keep(name, to_bytes(self._store.table(name)))
        self._kept.move_to_end(name)
        return self._kept[name]

    def keep(self, name: str, table: bytes) -> None:
        kept = self._kept
        kept[name] = table
        while len(kept) > _TABLES or (len(kept) > 1 and sum(map(len, kept.values())) > _TABLE_BYTES):
            kept.popitem(last=False)
