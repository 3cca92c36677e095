"""Workers: each executes one task at a time, in this process or in a separate one.

Ray's workers, perhaps on other machines, are in ray_pool.py.
"""

import multiprocessing
import os
import signal
import socket
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

import pyarrow as pa

from troth.core import trust
from troth.core.errors import TrothError
from troth.core.files import is_full
from troth.core.progress import hidden
from troth.core.user_code import UserCodeError
from troth.store.cells import Cell, find_function
from troth.sweep import machine
from troth.sweep.context import Context

_FRAMES = 6  # frames of a traceback that are kept


@dataclass(frozen=True)
class Task:
    """A cell, and the tables of its parents as bytes."""

    cell: Cell
    tables: Sequence[bytes]


@dataclass(frozen=True)
class Reply:
    name: str
    table: bytes = b""
    seconds: float = 0.0
    forward: int = 0
    backward: int = 0
    host: str = ""
    folders: tuple[str, ...] = ()
    error: str = ""
    traceback: str = ""
    disk_full: bool = False
    lost: bool = False  # whether the worker died


def carry_out(task: Task, context: Context, threads: int = 1) -> Reply:
    """Executes the runner of a cell; an error becomes part of the reply."""
    host = socket.gethostname()
    loading, begun = context.loading, time.perf_counter()
    try:
        runner = find_function(task.cell.runner)
        with _same_start(task.cell, threads), hidden(), trust.allowing(*context.trusted):
            begun = time.perf_counter()  # importing the runner does not count
            output = runner(task.cell, [from_bytes(table) for table in task.tables], context)
            table = to_bytes(output.table)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also panics in Rust and sys.exit, which are not ordinary exceptions
        message, frames = _described(error)
        seconds = time.perf_counter() - begun
        return Reply(
            task.cell.name, seconds=seconds, host=host, error=message, traceback=frames, disk_full=is_full(error)
        )
    seconds = time.perf_counter() - begun - (context.loading - loading)
    return Reply(task.cell.name, table, seconds, output.forward, output.backward, host, output.folders)


def serve(connection: Connection, store: str, home: str, threads: int, trusted: Sequence[str] = ()) -> None:
    """The main loop of a worker process: executes tasks and sends replies until the other side closes."""
    # Ctrl-C reaches the whole process group; the scheduler handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    context = Context(store, home, trusted)
    while True:
        try:
            task = connection.recv()
            connection.send(carry_out(task, context, threads))
        except (EOFError, OSError):
            return


def to_bytes(table: pa.Table) -> bytes:
    """Serializes a table; a slice is written without the rest of its parent."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_bytes(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


@contextmanager
def _same_start(cell: Cell, threads: int) -> Iterator[None]:
    """Every cell starts with the same random state and number of threads, whatever its worker did before; both are
    restored afterwards, since the worker may be the user's own process.
    """
    import torch

    from troth.core import draws

    before = torch.get_num_threads()
    with draws.seeded(int(cell.name[:8], 16)):  # for libraries that use global random generators
        try:
            if before != threads:
                torch.set_num_threads(threads)
            yield
        finally:
            if torch.get_num_threads() != before:
                torch.set_num_threads(before)


def _described(error: BaseException) -> tuple[str, str]:
    """One line and a traceback: for errors in user code, their part of it; for internal errors, its end."""
    if isinstance(error, UserCodeError):
        return str(error), error.trace
    if isinstance(error, TrothError):
        return str(error), ""
    lines = traceback.format_exception(error)
    stack = traceback.format_tb(error.__traceback__)[-_FRAMES:]
    return lines[-1].strip().partition("\n")[0], "".join([*stack, lines[-1]])


def _end_with_parent() -> None:
    """Ends the worker process when the run that started it ends, even if the run is killed."""
    from multiprocessing import parent_process

    parent: Any = parent_process()
    wait([parent.sentinel])
    os._exit(1)


class Pool(Protocol):
    """A set of numbered workers."""

    size: int

    def idle(self) -> list[int]:
        """The workers that can take a task now."""

    def submit(self, worker: int, task: Task) -> None:
        """Assigns a task to an idle worker."""

    def collect(self, timeout: float) -> list[Reply]:
        """The replies received within `timeout` seconds; a worker that died gives a reply, too."""

    def close(self) -> None:
        """Ends the workers, whatever they are doing."""


class ThisProcess:
    """A single worker, in this process."""

    size = 1

    def __init__(self, context: Context, threads: int) -> None:
        self._context, self._threads = context, threads
        self._task: Task | None = None

    def idle(self) -> list[int]:
        return [0] if self._task is None else []

    def submit(self, worker: int, task: Task) -> None:
        self._task = task

    def collect(self, timeout: float) -> list[Reply]:
        if self._task is None:
            return []
        task, self._task = self._task, None
        return [carry_out(task, self._context, self._threads)]

    def close(self) -> None:
        pass


class Processes:
    """Workers in separate processes, each with its own model and, if there are several GPUs, its own GPU."""

    def __init__(self, size: int, store: str, home: str, threads: int, trusted: tuple[str, ...] = ()) -> None:
        self.size = size
        self._settings = (store, home, threads, trusted)
        self._spawn = multiprocessing.get_context("spawn")
        self._workers: dict[int, tuple[BaseProcess, Connection]] = {}
        self._busy: dict[int, Task] = {}

    def idle(self) -> list[int]:
        # Running workers first: a new one has to load its model.
        free = (worker for worker in range(self.size) if worker not in self._busy)
        return sorted(free, key=lambda worker: worker not in self._workers)

    def submit(self, worker: int, task: Task) -> None:
        if worker not in self._workers:
            self._start(worker)
        self._busy[worker] = task
        with suppress(OSError):  # it has died, which `collect` will report
            self._workers[worker][1].send(task)

    def collect(self, timeout: float) -> list[Reply]:
        connections = {self._workers[worker][1]: worker for worker in self._busy}
        replies = []
        for connection in wait(list(connections), timeout):
            assert isinstance(connection, Connection)
            worker = connections[connection]
            task = self._busy.pop(worker)
            try:
                replies.append(connection.recv())
            except (EOFError, OSError):
                self._end(worker)
                replies.append(Reply(task.cell.name, lost=True))
        return replies

    def close(self) -> None:
        for worker in list(self._workers):
            self._end(worker)

    def _start(self, worker: int) -> None:
        ours, theirs = self._spawn.Pipe()
        process = self._spawn.Process(target=serve, args=(theirs, *self._settings), daemon=True)
        with _environment(worker, self._settings[2]):
            process.start()
        theirs.close()
        self._workers[worker] = (process, ours)

    def _end(self, worker: int) -> None:
        process, connection = self._workers.pop(worker)
        connection.close()
        if worker in self._busy:
            process.kill()
        process.join(timeout=5)
        if process.is_alive():
            process.kill()


@contextmanager
def _environment(worker: int, threads: int) -> Iterator[None]:
    """Environment variables that a new process needs before it imports a library: few threads, and its own GPU."""
    wanted: dict[str, Any] = {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    if devices := machine.gpus():
        wanted["CUDA_VISIBLE_DEVICES"] = devices[worker % len(devices)]
    before = {key: os.environ.get(key) for key in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
