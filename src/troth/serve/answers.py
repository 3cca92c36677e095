"""A job's result as one JSON value, or its events as they come; both end the job when the browser leaves."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from troth.core.errors import TrothError
from troth.serve.jobs import Event, Job, TooSlowError
from troth.serve.work_queue import FullError, WorkQueue


class LeftError(Exception):
    """The browser has gone: there is nobody to answer."""


class Json(Response):
    """JSON that any browser reads: what is undefined is null, and no character that UTF-8 lacks."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return text_of(content).encode()


def text_of(value: Any) -> str:
    """JSON on one line."""
    return json.dumps(_defined(value))


def _defined(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _defined(each) for name, each in value.items()}
    return [_defined(each) for each in value] if isinstance(value, list | tuple) else value


def status_of(error: BaseException) -> tuple[int, str]:
    """The status and the line for an error."""
    if not isinstance(error, TrothError):
        return 500, f"the model or troth failed ({type(error).__name__}); see what troth serve printed"
    codes = ((FullError, 503), (TooSlowError, 504), (TrothError, 422))
    return next(code for kind, code in codes if isinstance(error, kind)), str(error)


def problem(error: BaseException) -> Json:
    """An error as a response."""
    status, line = status_of(error)
    return Json({"error": line}, status, headers={"retry-after": "1"} if status == 503 else None)


async def results(request: Request, queue: WorkQueue, *jobs: Job) -> list[Any]:
    """The result of every job."""
    leaving = asyncio.ensure_future(_left(request.receive))
    try:
        queue.submit(*jobs)
        return [await _result(job, leaving) for job in jobs]
    finally:
        leaving.cancel()
        queue.withdraw(*jobs)


async def _result(job: Job, leaving: asyncio.Future[None]) -> Any:
    while True:
        event = await _next(job, leaving)
        if event.name == "error":
            raise event.data
        if event.name == "result":
            return event.data


async def _next(job: Job, leaving: asyncio.Future[None]) -> Event:
    """The job's next event; raises when the browser leaves first."""
    coming = asyncio.ensure_future(job.events.get())
    try:
        either: set[asyncio.Future[Any]] = {coming, leaving}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not coming.done():
            raise LeftError
        return coming.result()
    finally:
        coming.cancel()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Server-sent events of one job: queued, progress, then result or error."""

    media_type = "text/event-stream"

    def __init__(self, queue: WorkQueue, job: Job) -> None:
        queue.submit(job)  # refused before anything is sent
        super().__init__()
        del self.headers["content-length"]
        self._queue, self._job = queue, job

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while True:
                event = await _next(self._job, leaving)
                is_last = event.name in ("result", "error")
                await send({"type": "http.response.body", "body": _line(event), "more_body": not is_last})
                if is_last:
                    return
        except LeftError:
            pass
        finally:
            leaving.cancel()
            self._queue.withdraw(self._job)


def _line(event: Event) -> bytes:
    data = event.data
    if event.name == "error":
        status, line = status_of(data)
        data = {"status": status, "error": line}
    return f"event: {event.name}\ndata: {text_of(data)}\n\n".encode()
