"""One queue and one worker thread: jobs on the same model share batches, even if they arrive while others run."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch

from troth.core import terminal
from troth.core.errors import TrothError
from troth.core.user_code import UserCodeError
from troth.engine.prober import Prober
from troth.engine.routines import Routine, Running
from troth.models import TextClassifier
from troth.serve.parts import in_parts

_OFTEN = 0.1  # minimum seconds between two progress events
_SHARE = 256  # maximum number of jobs that share batches one after the other while jobs with another key wait
_IDLE = 1.0  # seconds without a job after which memory is released


class Event(NamedTuple):
    """An event of a job: queued, progress, result or error."""

    name: str
    data: Any

    @property
    def is_last(self) -> bool:
        return self.name in ("result", "error")


class BatchKey(NamedTuple):
    """Jobs with the same key share batches."""

    model: str
    masking: str


class TooSlowError(TrothError):
    """The job took longer than a request may take."""


class WithdrawnError(Exception):
    """The client no longer waits for the result."""


class Job:
    """A piece of work, and the events that its client reads."""

    def __init__(self, key: BatchKey, begin: Callable[[Job], Routine[Any]], *, may_refuse: bool = False) -> None:
        self.key, self.begin = key, begin
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.refused: dict[str, str] = {}  # the reason of each explainer that cannot explain this
        self.is_done = False
        self._may_refuse = may_refuse
        self.deadline = float("inf")
        self._withdrawn = False
        self._loop = asyncio.get_running_loop()
        self._step: dict[str, Any] = {}
        self._blamed, self._of = "", 0  # the cause of a refusal now, and how many there can be
        self._rows, self._told = 0, 0.0

    def withdraw(self) -> None:
        """Marks the job as no longer wanted; the worker stops before the next use of the model."""
        self._withdrawn = True

    def require_wanted(self) -> None:
        """Raises an error if the job should not continue."""
        if self._withdrawn:
            raise WithdrawnError
        if time.monotonic() > self.deadline:
            raise TooSlowError(
                "this took longer than the time limit of a request; use fewer explainers, or troth explain"
            )

    def begins(self, explainer: str, done: int, of: int) -> None:
        """Reports that the next explainer starts."""
        self._step = {"explainer": explainer, "done": done, "of": of}
        self._blamed, self._of = explainer, of
        self._tell_progress()

    def proves(self, name: str, after: int) -> None:
        """All `after` explainers are done; an error before `compares` is due to the proof."""
        self._blamed, self._of = name, after + 1

    def compares(self) -> None:
        """All explainers are done; a later error is not due to one of them."""
        self._may_refuse = False

    def refuses(self, error: Exception) -> bool:
        """Records a refusal of the current explainer; returns whether to start the job again without it."""
        is_refusal = isinstance(error, TrothError) and not isinstance(error, UserCodeError | TooSlowError)
        if not (self._may_refuse and self._blamed and is_refusal):
            return False
        self.refused[self._blamed] = str(error)
        return len(self.refused) < self._of

    def answered(self, rows: int) -> None:
        """Reports that the model has answered this many more rows; raises an error if the job should not continue."""
        self.require_wanted()
        self._rows += rows
        if self._step and time.monotonic() - self._told > _OFTEN:
            self._tell_progress()

    def finish(self, result: Any) -> None:
        self.is_done = True
        self.tell("result", result)

    def fail(self, error: BaseException) -> None:
        self.is_done = True
        self.tell("error", error.with_traceback(None))  # the traceback would keep tensors alive

    def tell(self, name: str, data: Any) -> None:
        with suppress(RuntimeError):  # if the event loop has ended
            self._loop.call_soon_threadsafe(self.events.put_nowait, Event(name, data))

    def _tell_progress(self) -> None:
        self._told = time.monotonic()
        self.tell("progress", {**self._step, "rows": self._rows})


@dataclass(frozen=True)
class Limits:
    """Limits of concurrent work."""

    jobs: int = 64  # waiting or running; further jobs are rejected
    together: int = 16  # jobs that share batches at a time
    seconds: float = 300.0  # time limit for waiting and running


class FullError(TrothError):
    """So many jobs are waiting or running that a request is rejected."""


class WorkQueue:
    """Accepts jobs from any thread and runs them in its own."""

    def __init__(self, models: Mapping[str, TextClassifier], limits: Limits) -> None:
        self._models, self._limits = models, limits
        self._waiting: deque[Job] = deque()
        self._under_way: list[Job] = []
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="troth-serve", daemon=True)
        self._thread.start()

    def submit(self, *jobs: Job) -> None:
        """Adds all of the jobs, or raises an error if there is no room for them."""
        with self._changed:
            if self._is_closed or self.open + len(jobs) > self._limits.jobs:
                raise FullError(f"{self.open} requests are in progress, which is the maximum; try again in a moment")
            for job in jobs:
                job.deadline = time.monotonic() + self._limits.seconds
                job.tell("queued", {"ahead": self.open})
                self._waiting.append(job)
            self._changed.notify()

    def withdraw(self, *jobs: Job) -> None:
        """Withdraws jobs whose client no longer waits; a job that has not started makes room at once."""
        with self._changed:
            for job in jobs:
                job.withdraw()
                if job in self._waiting:
                    self._waiting.remove(job)

    @property
    def open(self) -> int:
        """The number of jobs that are waiting or running."""
        return len(self._waiting) + sum(not job.is_done for job in self._under_way)

    def close(self) -> None:
        """Stops after the current batches."""
        with self._changed:
            self._is_closed = True
            for job in (*self._waiting, *self._under_way):
                job.withdraw()
            self._changed.notify()
        self._thread.join(timeout=10)

    def take(self, key: BatchKey | None) -> Job | None:
        """The next waiting job with this key (or any key, if None), or None."""
        with self._changed:
            job = next((job for job in self._waiting if key in (None, job.key)), None)
            if job is not None:
                self._waiting.remove(job)
                self._under_way.append(job)
            return job

    def _work(self) -> None:
        while self._wait():
            if self.take(None) is None:
                continue  # the job was withdrawn
            self._share(_Arriving(self, self._under_way))
            with self._changed:
                self._under_way = []

    def _wait(self) -> bool:
        """Waits for a job; returns False if the queue was closed. When idle, memory is returned to the system."""
        with self._changed:
            is_idle = not self._changed.wait_for(self._is_wanted, timeout=_IDLE)
        if is_idle:
            release_memory()
        with self._changed:
            self._changed.wait_for(self._is_wanted)
            return not self._is_closed

    def _is_wanted(self) -> bool:
        return bool(self._waiting) or self._is_closed

    def _share(self, arriving: _Arriving) -> None:
        """Runs jobs with the same key together; if that fails, each on its own, to find the one that fails."""
        key = arriving.taken[0].key
        try:
            prober = Prober(self._models[key.model], key.masking, window=self._limits.together)
            # A generator expression would end for good as soon as no job waits.
            for _ in prober.run(map(partial(_watched, prober), arriving)):
                pass
        except Exception as error:
            left = [job for job in arriving.taken if not job.is_done]
            for job in left:
                if len(left) > 1 or job.refuses(error):
                    self._share(_Arriving(None, [job]))
                else:
                    _print_fault(error)
                    job.fail(error)


class _Arriving(Iterator[Job]):
    """An iterator over arriving jobs: after StopIteration it may return more jobs in the next round."""

    def __init__(self, queue: WorkQueue | None, taken: list[Job]) -> None:
        self.taken = taken  # jobs taken from the queue are appended here
        self._queue, self._begun = queue, 0

    def __next__(self) -> Job:
        if self._begun == len(self.taken) and not self._has_more():
            raise StopIteration
        self._begun += 1
        return self.taken[self._begun - 1]

    def _has_more(self) -> bool:
        if self._queue is None or self._begun >= _SHARE:
            return False
        return self._queue.take(self.taken[0].key) is not None


def _watched(prober: Prober, job: Job) -> Routine[None]:
    """The routine of a job: reports progress, stops if it is withdrawn, and keeps its errors from other jobs."""
    try:
        job.require_wanted()
        running: Running[Any] = Running(job.begin(job))
        while running.advance():
            probes = [probe.batch() for probe in running.probes]
            running.receive((yield from in_parts(probes, prober, job.answered)))
        job.finish(running.result)
    except WithdrawnError:
        job.is_done = True
    except Exception as error:
        if not job.refuses(error):
            _print_fault(error)
            job.fail(error)
    if not job.is_done:
        yield from _watched(prober, job)


def _print_fault(error: Exception) -> None:
    """Prints errors of troth or a model on the server's standard error; the client only gets one line."""
    if sys.stderr is None or (isinstance(error, TrothError) and not isinstance(error, UserCodeError)):
        return
    trace = error.trace if isinstance(error, UserCodeError) else "".join(traceback.format_exception(error))
    terminal.echo(trace or str(error), err=True)


def release_memory() -> None:
    """Returns memory that allocators kept after a burst of requests to the system; takes a fraction of a second."""
    gc.collect()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # exists in glibc, but not in musl
        if trim is not None:
            trim(0)
