"""Carries out a plan: what is stored is kept, what failed keeps its error, the rest is done here or on a cluster."""

from __future__ import annotations

import socket
import sys
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

from troth.core.errors import TrothError
from troth.store.cells import Cell, Plan
from troth.store.files import CannotWriteError
from troth.store.store import Store, Stored
from troth.sweep import machine, stopping
from troth.sweep.context import Context
from troth.sweep.crews import Crew, Processes, ThisProcess, cores
from troth.sweep.crews import gpus as visible_gpus
from troth.sweep.estimate import Pace
from troth.sweep.graph import Graph
from troth.sweep.limits import check_options
from troth.sweep.ready import Shard, group
from troth.sweep.workers import Reply, Task, from_bytes, to_bytes

Engine = Literal["local", "ray"]

COMPACT_EVERY = 1_000  # fresh cells
_POLL = 1.0  # seconds between two looks at what other processes have done
_DEATHS = 3  # workers a cell may cost before it counts as failed
_TABLES = 32  # parents' tables held in memory
_TABLE_BYTES = 256 << 20


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
    found: int = 0  # finished before, or by another process
    failed: tuple[Stored, ...] = ()
    blocked: tuple[Cell, ...] = ()  # a parent failed
    left: int = 0  # not done: the run was stopped, or other processes are at them
    interrupted: bool = False
    seconds: float = 0.0
    notes: tuple[str, ...] = ()  # damaged files, by name

    @property
    def complete(self) -> bool:
        """Whether every cell of the plan is finished."""
        return not (self.failed or self.blocked or self.left)


def run(
    plan: Plan,
    store: Store,
    *,
    engine: Engine = "local",
    workers: int | None = 1,
    address: str | None = None,
    gpus: float | None = None,
    threads: int = 1,
    retry: bool = False,
    shard: Shard | None = None,
    progress: Callable[[Progress], None] | None = None,
    context: Context | None = None,
    command: str = "",
    compact_every: int = COMPACT_EVERY,
) -> Outcome:
    """Does what the store does not have yet; a cell that fails never stops the rest, and Ctrl-C leaves what is done.

    One worker is this process, several are processes of `threads` threads each (None: one a GPU, else one a core); with
    engine "ray" they are actors with `gpus` GPUs each, on this machine or on the cluster at `address`.
    """
    check_options(engine, workers, address, gpus, threads, shard)
    context = context or Context()
    context.store = store.folder.absolute()
    begun = time.monotonic()
    session = {"started": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "host": socket.gethostname(), "engine": engine}
    session["command"] = command or " ".join(sys.argv)
    key = f"{session['started']} {uuid4().hex[:8]}"
    try:
        repaired = store.repair()
        store.note(
            versions=machine.versions(), hardware={socket.gethostname(): machine.hardware()}, planned=len(plan),
            sessions={key: session}, **plan.about,
        )  # fmt: skip
        work = _Run(plan, store, retry, shard, progress, begun, repaired)
        if work.graph.open:
            work.carry_out(_crew(engine, workers, address, gpus, threads, context, work.graph.open), compact_every)
        store.compact()
        outcome = work.outcome()
        facts = {"computed": outcome.computed, "failed": len(outcome.failed), "seconds": round(outcome.seconds, 1)}
        store.note(sessions={key: {**session, **facts, "interrupted": outcome.interrupted}})
    except CannotWriteError as error:
        raise CannotWriteError(f"{error}; what is finished is safe: make room and run the same command again") from None
    finally:
        with suppress(OSError):
            store.claims.close()
    return outcome


def _crew(
    engine: Engine, workers: int | None, address: str | None, gpus: float | None, threads: int,
    context: Context, open_cells: int,
) -> Crew:  # fmt: skip
    if engine == "local":
        workers = min(workers or len(visible_gpus()) or cores(), open_cells)
        if workers == 1:
            return ThisProcess(context, threads)
    if context.in_memory:
        name = next(iter(context.in_memory.values())).name
        raise TrothError(f"model {name} is in memory, where other processes cannot read it; save it, or use 1 worker")
    context.forget()
    places = (str(context.store), str(context.home), threads)
    if engine == "local":
        assert workers is not None
        return Processes(workers, *places)
    from troth.sweep.ray_process import ray_crew

    return ray_crew(workers, address, gpus, *places)


class _Run:
    """One run under way."""

    def __init__(
        self, plan: Plan, store: Store, retry: bool, shard: Shard | None,
        progress: Callable[[Progress], None] | None, begun: float, repaired: list[str],
    ) -> None:  # fmt: skip
        self.plan, self.store, self.shard, self.progress, self.begun = plan, store, shard, progress, begun
        # One shard's reading of all files is enough.
        self.notes = repaired + (store.check() if shard is None or shard[0] == 1 else [])
        for name, table in plan.tables.items():
            if not store.has(name):
                store.write(plan.cells[name], table)
        if retry:
            store.forget_failures(plan.cells)
        self.graph = Graph(plan, store, shard)
        self.pace = Pace()
        self.running: dict[str, Cell] = {}
        self.elsewhere: list[Cell] = []  # other processes are at these
        self.deaths: Counter[str] = Counter()
        self.tables: OrderedDict[str, bytes] = OrderedDict()
        self.last: dict[int, Hashable] = {}  # the group of each worker's last cell
        self.interrupted = False

    def carry_out(self, crew: Crew, compact_every: int) -> None:
        """Hands out cells until none is left or somebody asks to stop."""
        try:
            with stopping.on_request() as stop:
                self._work(crew, compact_every, stop)
                self.interrupted = stop.asked and bool(self.graph.open)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            crew.close()
            for name in self.running:
                self.store.claims.drop(name)

    def _work(self, crew: Crew, compact_every: int, stop: stopping.Stop) -> None:
        looked = time.monotonic()
        while self.graph.open:
            if not stop.asked:
                self._hand_out(crew)
            self._tell(crew, stop)
            if not self.running and (stop.asked or self._others_do_the_rest()):
                return
            for reply in crew.collect(_POLL):
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

    def _others_do_the_rest(self) -> bool:
        """A shard leaves when nothing can become free for it; a run that is on its own waits for the whole table."""
        return self.shard is not None and 0 < self.graph.open == len(self.elsewhere)

    def _hand_out(self, crew: Crew) -> None:
        for worker in crew.idle():
            cell = self._next(self.last.get(worker))
            if cell is None:
                return
            self.last[worker] = group(cell)
            self.running[cell.name] = cell
            tables = [self._table(parent) for parent in cell.parents]
            crew.hand(worker, Task(cell, tables))

    def _next(self, last: Hashable) -> Cell | None:
        """A cell that is neither finished nor claimed by another process."""
        store, graph = self.store, self.graph
        while (cell := graph.ready.pop(last)) is not None:
            if self._is_done(cell):
                graph.finish(cell, found=True)
            elif not store.claims.take(cell.name):
                self.elsewhere.append(cell)
            elif self._is_done(cell):
                store.claims.drop(cell.name)
                graph.finish(cell, found=True)
            elif (failure := store.failure(cell.name)) is not None:
                store.claims.drop(cell.name)
                graph.give_up(cell, failure)
            else:
                return cell
        return None

    def _is_done(self, cell: Cell) -> bool:
        """Whether it is finished, perhaps by another process just now."""
        return self.store.has_now(cell.name) and not (cell.name in self.graph.lost and self.graph.is_lost(cell.name))

    def _settle(self, reply: Reply) -> None:
        cell = self.running[reply.name]
        facts = {"seconds": round(reply.seconds, 4), "host": reply.host}
        if reply.lost and self.deaths[cell.name] + 1 < _DEATHS:
            self.deaths[cell.name] += 1
            self.graph.ready.push(cell)
        elif reply.lost or reply.error:
            if reply.disk_full:
                raise CannotWriteError(f"{cell.kind} {cell.name}: the disk is full ({reply.error})")
            error = reply.error or f"the worker died {_DEATHS} times at this cell; perhaps memory ran out"
            self.graph.give_up(cell, self.store.fail(cell, error, reply.traceback, facts))
        else:
            cost: dict[str, Any] = {"forward": reply.forward, "backward": reply.backward}
            if reply.folders:
                cost["folders"] = list(reply.folders)
            if cell.name not in self.graph.lost:  # the rows of a lost one are there, and others were made from them
                self.store.write(cell, from_bytes(reply.table), {**facts, **cost})
            self._remember(cell.name, reply.table)
            self.pace.learn(cell.kind, cell.specs, reply.seconds)
            self.graph.finish(cell, found=False)
        self.store.claims.drop(cell.name)
        del self.running[cell.name]

    def _table(self, name: str) -> bytes:
        if name not in self.tables:
            self._remember(name, to_bytes(self.store.table(name)))
        self.tables.move_to_end(name)
        return self.tables[name]

    def _remember(self, name: str, table: bytes) -> None:
        self.tables[name] = table
        while len(self.tables) > _TABLES or (len(self.tables) > 1 and self._held() > _TABLE_BYTES):
            self.tables.popitem(last=False)

    def _held(self) -> int:
        return sum(map(len, self.tables.values()))

    def _tell(self, crew: Crew, stop: stopping.Stop) -> None:
        if self.progress is None:
            return
        graph = self.graph
        seconds = graph.remaining.seconds(self.pace) if graph.computed else None
        self.progress(
            Progress(
                done=graph.computed + graph.found,
                total=len(self.plan),
                failed=len(graph.failed),
                running=len(self.running),
                seconds=time.monotonic() - self.begun,
                left=None if seconds is None else seconds / max(1, min(crew.size, graph.open)),
                stopping=stop.asked,
            )
        )

    def outcome(self) -> Outcome:
        """What has been done so far."""
        graph = self.graph
        return Outcome(
            computed=graph.computed,
            found=graph.found,
            failed=tuple(graph.failed.values()),
            blocked=tuple(graph.blocked.values()),
            left=graph.open,
            interrupted=self.interrupted,
            seconds=time.monotonic() - self.begun,
            notes=tuple(self.notes),
        )
