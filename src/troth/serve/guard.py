"""Rejects requests for other hosts, from other origins, and with bodies that are too large."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from troth.serve import requests
from troth.serve.answers import Json

LOCAL = ("127.0.0.1", "localhost", "[::1]")
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
}
_TOO_LARGE = (413, f"the request is too large; at most {requests.BODY:,} bytes are read")


class Guard:
    """Rejects requests from pages of other sites, and for host names that another site points to this address."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._hosts = {f"{host}:{port}" for host in LOCAL} | ({*LOCAL} if port == 80 else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        refused = self._refused(Headers(scope=scope))
        if refused is not None:
            status, line = refused
            await Json({"error": line}, status, {"connection": "close", **_HEADERS})(scope, receive, send)
            return
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > requests.BODY:
                raise HTTPException(*_TOO_LARGE)
            return message

        async def safe(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, counted, safe)

    def _refused(self, headers: Headers) -> tuple[int, str] | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 403, "this page answers only to its own address; open the one that troth serve printed"
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
            return 403, "another site's page sent this; troth serve answers only its own"
        length = headers.get("content-length", "0")
        is_small = length.isascii() and length.isdigit() and len(length) < 20 and int(length) <= requests.BODY
        return None if is_small else _TOO_LARGE
