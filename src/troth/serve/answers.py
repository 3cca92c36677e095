"""What jobs give, as one JSON value or as events as they come; both end the jobs when the browser leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import Receive, Scope, Send

from troth.core.errors import TrothError
from troth.core.sheet import without_nan
from troth.core.user_code import UserCodeError
from troth.serve.jobs import Event, Job, TooSlowError
from troth.serve.work_queue import FullError, WorkQueue

Shape = Callable[[list[Any]], Any]  # the results of all jobs as one


class LeftError(Exception):
    """The browser has gone: there is nobody to answer."""


class Json(JSONResponse):
    """JSON that any browser reads: what is undefined is null, and no character that UTF-8 lacks."""

    def render(self, content: Any) -> bytes:
        return text_of(content).encode()


class Page(HTMLResponse):
    """HTML in which a character that UTF-8 lacks is an escape."""

    def render(self, content: str) -> bytes:
        return content.encode(errors="backslashreplace")


def text_of(value: Any) -> str:
    """JSON on one line."""
    return json.dumps(without_nan(value))


def status_of(error: BaseException) -> tuple[int, str]:
    """The status and the line for an error."""
    if isinstance(error, UserCodeError):
        return 500, f"the model failed ({type(error.__cause__).__name__}); see what troth serve printed"
    if not isinstance(error, TrothError):
        return 500, f"the model or troth failed ({type(error).__name__}); see what troth serve printed"
    codes = ((FullError, 503), (TooSlowError, 504), (TrothError, 422))
    return next(code for kind, code in codes if isinstance(error, kind)), str(error)


def problem(error: BaseException) -> Json:
    """An error as a response."""
    status, line = status_of(error)
    return Json({"error": line}, status, headers={"retry-after": "1"} if status == 503 else None)


async def answer(request: Request, queue: WorkQueue, jobs: Sequence[Job], shape: Shape) -> Response:
    """The jobs' result as JSON, or their events where the browser asks for those."""
    if "text/event-stream" in request.headers.get("accept", ""):
        return _EventStream(queue, jobs, shape)
    return Json(shape(await results(request, queue, jobs)))


async def results(request: Request, queue: WorkQueue, jobs: Sequence[Job]) -> list[Any]:
    """The result of every job."""
    queue.submit(*jobs)
    found = []
    async with _told(request.receive, queue, jobs) as events:
        async for event in events:
            if event.name == "error":
                raise event.data
            if event.name == "result":
                found.append(event.data)
    return found


@asynccontextmanager
async def _told(receive: Receive, queue: WorkQueue, jobs: Sequence[Job]) -> AsyncIterator[AsyncIterator[Event]]:
    """What is told of the jobs; they are withdrawn at the end, whatever ends it."""
    leaving = asyncio.ensure_future(_left(receive))
    try:
        yield _events(jobs, leaving)
    finally:
        leaving.cancel()
        queue.withdraw(*jobs)


async def _events(jobs: Sequence[Job], leaving: asyncio.Future[None]) -> AsyncIterator[Event]:
    """Of one job after the other, until all are done or one fails; raises when the browser leaves."""
    for job in jobs:
        event = None
        while event is None or not event.is_last:
            yield (event := await _next(job, leaving))
        if event.name == "error":
            return


async def _next(job: Job, leaving: asyncio.Future[None]) -> Event:
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


class _EventStream(Response):
    """Server-sent events: queued and progress of every job, then one result or error."""

    media_type = "text/event-stream"

    def __init__(self, queue: WorkQueue, jobs: Sequence[Job], shape: Shape) -> None:
        queue.submit(*jobs)  # refused before anything is sent
        super().__init__()
        del self.headers["content-length"]
        self._queue, self._jobs, self._shape = queue, jobs, shape

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found: list[Any] = []
        try:
            async with _told(receive, self._queue, self._jobs) as events:
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                async for event in events:
                    if event.name == "result":
                        found.append(event.data)
                        if len(found) < len(self._jobs):
                            continue
                        event = Event("result", self._shape(found))
                    await send({"type": "http.response.body", "body": _line(event), "more_body": not event.is_last})
        except LeftError:
            pass


def _line(event: Event) -> bytes:
    data = event.data
    if event.name == "error":
        status, line = status_of(data)
        data = {"error": line, "status": status}
    return f"event: {event.name}\ndata: {text_of(data)}\n\n".encode()
