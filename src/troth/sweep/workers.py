"""One worker carries out one task at a time, in this process, in one of its own, or on another machine."""

import os
import signal
import socket
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import pyarrow as pa

from troth.core import trust
from troth.core.errors import TrothError
from troth.core.files import is_full
from troth.core.progress import hidden
from troth.core.user_calls import UserCodeError
from troth.store.cells import Cell, find_work
from troth.sweep.context import Context

_FRAMES = 6  # of a traceback that is kept


@dataclass(frozen=True)
class Task:
    """A cell, and its parents' tables as bytes."""

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
    lost: bool = False  # the worker died


def carry_out(task: Task, context: Context, threads: int = 1) -> Reply:
    """Does the work of a cell; an error becomes part of the reply."""
    host = socket.gethostname()
    loading, begun = context.loading, time.perf_counter()
    try:
        work = find_work(task.cell.work)
        with _same_start(task.cell, threads), hidden(), trust.allowing(*context.trusted):
            begun = time.perf_counter()  # what has to be imported is not the cell's time
            output = work(task.cell, [from_bytes(table) for table in task.tables], context)
            table = to_bytes(output.table)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic in Rust and sys.exit are none of Python's usual errors
        message, frames = _described(error)
        seconds = time.perf_counter() - begun
        return Reply(
            task.cell.name, seconds=seconds, host=host, error=message, traceback=frames, disk_full=is_full(error)
        )
    seconds = time.perf_counter() - begun - (context.loading - loading)
    return Reply(task.cell.name, table, seconds, output.forward, output.backward, host, output.folders)


def serve(connection: Connection, store: str, home: str, threads: int, trusted: Sequence[str] = ()) -> None:
    """The life of a worker process: tasks come in, replies go out, until the other side closes."""
    # Ctrl-C reaches the whole group; it is for the one who hands out the work.
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
    """A table as it travels; only the rows it shows, not all it was cut from."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_bytes(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


@contextmanager
def _same_start(cell: Cell, threads: int) -> Iterator[None]:
    """Every cell finds the same random state and number of threads, whatever its worker did before; both are put back,
    for the worker may be the user's own process.
    """
    import torch

    from troth.core import draws

    before = torch.get_num_threads()
    with draws.seeded(int(cell.name[:8], 16)):  # what libraries draw from behind our back
        try:
            if before != threads:
                torch.set_num_threads(threads)
            yield
        finally:
            if torch.get_num_threads() != before:
                torch.set_num_threads(before)


def _described(error: BaseException) -> tuple[str, str]:
    """One line, and where a fault came from: of the user's code their part of the traceback, of ours its end."""
    if isinstance(error, UserCodeError):
        return str(error), error.trace
    if isinstance(error, TrothError):
        return str(error), ""
    lines = traceback.format_exception(error)
    stack = traceback.format_tb(error.__traceback__)[-_FRAMES:]
    return lines[-1].strip().partition("\n")[0], "".join([*stack, lines[-1]])


def _end_with_parent() -> None:
    """A worker does not outlive the run that started it, not even when that is killed."""
    from multiprocessing import parent_process

    parent: Any = parent_process()
    wait([parent.sentinel])
    os._exit(1)
