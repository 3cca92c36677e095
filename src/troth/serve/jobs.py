"""One piece of work: asked for in the event loop, worked on in the worker's thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from troth.core.errors import TrothError
from troth.engine.routines import Routine

_OFTEN = 0.1  # seconds between two reports of progress


class Event(NamedTuple):
    """What is told of a job: queued, progress, result or error."""

    name: str
    data: Any

    @property
    def is_last(self) -> bool:
        return self.name in ("result", "error")


class Lane(NamedTuple):
    """Jobs of one lane share batches."""

    model: str
    masking: str


class TooSlowError(TrothError):
    """The job took longer than a request may."""


class WithdrawnError(Exception):
    """Nobody waits for the result any more."""


class Job:
    """A piece of work, and the events that whoever waits for it reads."""

    def __init__(self, lane: Lane, begin: Callable[[Job], Routine[Any]]) -> None:
        self.lane, self.begin = lane, begin
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.is_done = False
        self.deadline = float("inf")
        self._withdrawn = False
        self._loop = asyncio.get_running_loop()
        self._step: dict[str, Any] = {}
        self._rows, self._told = 0, 0.0

    def withdraw(self) -> None:
        """Nobody waits any more; the worker stops before the model is asked again."""
        self._withdrawn = True

    def require_wanted(self) -> None:
        """Raises where the job should not go on."""
        if self._withdrawn:
            raise WithdrawnError
        if time.monotonic() > self.deadline:
            raise TooSlowError("this takes longer than a request may; use fewer explainers, or troth explain")

    def begins(self, explainer: str, done: int, of: int) -> None:
        """The next explainer's turn."""
        self._step = {"explainer": explainer, "done": done, "of": of}
        self._tell_progress()

    def answered(self, rows: int) -> None:
        """The model has answered so many more rows; raises where the job should not go on."""
        self.require_wanted()
        self._rows += rows
        if self._step and time.monotonic() - self._told > _OFTEN:
            self._tell_progress()

    def finish(self, result: Any) -> None:
        self.is_done = True
        self.tell("result", result)

    def fail(self, error: BaseException) -> None:
        self.is_done = True
        self.tell("error", error.with_traceback(None))  # which would hold on to tensors

    def tell(self, name: str, data: Any) -> None:
        with suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(self.events.put_nowait, Event(name, data))

    def _tell_progress(self) -> None:
        self._told = time.monotonic()
        self.tell("progress", {**self._step, "rows": self._rows})
