"""Sends the results of jobs as JSON or as a stream of events; both stop the jobs when the browser disconnects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.types import Receive

from troth.core.errors import TrothError
from troth.core.sheet import without_nan
from troth.core.user_code import UserCodeError
from troth.serve.work_queue import Event, FullError, Job, TooSlowError, WorkQueue

Shape = Callable[[list[Any]], Any]  # combines the results of all jobs


class LeftError(Exception):
    """The browser has disconnected, so there is nobody to answer."""


class Json(JSONResponse):
    """JSON that every browser can read: undefined numbers are null, and characters that UTF-8 lacks are escaped."""

    def render(self, content: Any) -> bytes:
        return text_of(content).encode()


class Page(HTMLResponse):
    """HTML in which characters that UTF-8 lacks are escaped."""

    def render(self, content: str) -> bytes:
        return content.encode(errors="backslashreplace")


def text_of(value: Any) -> str:
    """JSON on a single line."""
    return json.dumps(without_nan(value))


def status_of(error: BaseException) -> tuple[int, str]:
    """The HTTP status and the message for an error."""
    if isinstance(error, HTTPException):
        return error.status_code, str(error.detail)
    if isinstance(error, RequestValidationError):
        return 422, "; ".join(_lines(error.errors()))
    if isinstance(error, UserCodeError):
        return 500, f"the model failed ({type(error.__cause__).__name__}); see what troth serve printed"
    if not isinstance(error, TrothError):
        return 500, f"the model or troth failed ({type(error).__name__}); see what troth serve printed"
    codes = ((FullError, 503), (TooSlowError, 504), (TrothError, 422))
    return next(code for kind, code in codes if isinstance(error, kind)), str(error)


def _lines(errors: Sequence[Any]) -> list[str]:
    """What is wrong with a request, field by field, without repeating its content."""
    return [
        f"the body is not JSON at character {each['loc'][-1]}"
        if each["type"] == "json_invalid"
        else f"{'.'.join(str(part)[:60] for part in each['loc'][1:]) or 'body'}: {each['msg']}"
        for each in errors[:5]
    ]


async def problem(_: Request, error: Exception) -> Response:
    """The response for an error: one line of JSON."""
    if isinstance(error, LeftError):
        return Response(status_code=499)  # the client has disconnected
    status, line = status_of(error)
    headers = error.headers if isinstance(error, HTTPException) else {"retry-after": "1"} if status == 503 else None
    return Json({"error": line}, status, headers=headers)


async def answer(request: Request, queue: WorkQueue, jobs: Sequence[Job], shape: Shape) -> Response:
    """The jobs' result as JSON, or as events if the browser asks for a stream."""
    if "text/event-stream" in request.headers.get("accept", ""):
        queue.submit(*jobs)  # a full queue rejects the request before anything is sent
        return StreamingResponse(_stream(request.receive, queue, jobs, shape), media_type="text/event-stream")
    return Json(shape(await results(request, queue, jobs)))


async def results(request: Request, queue: WorkQueue, jobs: Sequence[Job]) -> list[Any]:
    """The result of every job."""
    queue.submit(*jobs)
    found = []
    async with aclosing(_events(request.receive, queue, jobs)) as events:
        async for event in events:
            if event.name == "error":
                raise event.data
            if event.name == "result":
                found.append(event.data)
    return found


async def _events(receive: Receive, queue: WorkQueue, jobs: Sequence[Job]) -> AsyncGenerator[Event]:
    """The events of one job after the other, until all are done or one fails; raises if the browser disconnects.

    The jobs are always withdrawn at the end.
    """
    leaving = asyncio.ensure_future(_left(receive))
    try:
        for job in jobs:
            event = None
            while event is None or not event.is_last:
                coming = asyncio.ensure_future(job.events.get())
                try:
                    await asyncio.wait({coming, leaving}, return_when=asyncio.FIRST_COMPLETED)
                    if not coming.done():
                        raise LeftError
                    event = coming.result()
                finally:
                    coming.cancel()
                yield event
            if event.name == "error":
                return
    finally:
        leaving.cancel()
        queue.withdraw(*jobs)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _stream(receive: Receive, queue: WorkQueue, jobs: Sequence[Job], shape: Shape) -> AsyncGenerator[bytes]:
    """Server-sent events: queued and progress of every job, then one result or error."""
    found: list[Any] = []
    with suppress(LeftError):
        async with aclosing(_events(receive, queue, jobs)) as events:
            async for event in events:
                if event.name == "result":
                    found.append(event.data)
                    if len(found) < len(jobs):
                        continue
                    event = Event("result", shape(found))
                yield _line(event)


def _line(event: Event) -> bytes:
    data = event.data
    if event.name == "error":
        status, line = status_of(data)
        data = {"error": line, "status": status}
    return f"event: {event.name}\ndata: {text_of(data)}\n\n".encode()
