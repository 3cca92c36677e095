"""Who does the work on this machine: this process alone, or several processes."""

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from troth.sweep import machine
from troth.sweep.context import Context
from troth.sweep.workers import Reply, Task, carry_out, serve


class Pool(Protocol):
    """Workers by number."""

    size: int

    def idle(self) -> list[int]:
        """Workers that can take a task now."""

    def submit(self, worker: int, task: Task) -> None:
        """Gives a task to an idle worker."""

    def collect(self, timeout: float) -> list[Reply]:
        """Replies that have come, after at most `timeout` seconds; a worker that died is a reply, too."""

    def close(self) -> None:
        """Ends the workers, whatever they are doing."""


class ThisProcess:
    """One worker: this process."""

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
    """Workers that are processes of their own, each with its own model and, where there are several, its own GPU."""

    def __init__(self, size: int, store: str, home: str, threads: int, trusted: tuple[str, ...] = ()) -> None:
        self.size = size
        self._settings = (store, home, threads, trusted)
        self._spawn = multiprocessing.get_context("spawn")
        self._workers: dict[int, tuple[BaseProcess, Connection]] = {}
        self._busy: dict[int, Task] = {}

    def idle(self) -> list[int]:
        # Started workers first: a new one has to load its model.
        free = (worker for worker in range(self.size) if worker not in self._busy)
        return sorted(free, key=lambda worker: worker not in self._workers)

    def submit(self, worker: int, task: Task) -> None:
        if worker not in self._workers:
            self._start(worker)
        self._busy[worker] = task
        with suppress(OSError):  # it has died, as collect will show
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
    """What a new process must find before it loads a library: few threads, and the GPU that is its own."""
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
