"""JSON over HTTP to a server that runs a language model: patient with one that is busy, broken or silent.

The key comes from the environment and goes nowhere but into the request's header.
"""

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from troth.core import hub, trust
from troth.core.errors import TrothError

_LONGEST_PAUSE = 60.0
_SPEAKING = {400, 404, 413, 422}  # refusals whose text says what to change
_LONGEST = 200  # letters of such a text that are shown


def is_url(source: Any) -> bool:
    """Whether a model is named by where it is asked."""
    return isinstance(source, str) and source.lower().startswith(("http://", "https://"))


@dataclass(frozen=True)
class Endpoint:
    """Where a model is asked over HTTP, how patiently, and which environment variable holds the key."""

    url: str
    model: str
    key_variable: str
    timeout: float
    retries: int
    backoff: float

    def __post_init__(self) -> None:
        trust.endpoint_parts(self.url)  # refuses what is not one

    def post(self, path: str, body: dict[str, Any], protocol: str) -> Any:
        """What the server answers, read as JSON; asks again, ever more slowly, when it is busy, broken or silent."""
        if why := hub.network_off():
            raise TrothError(f"no request was sent to endpoint {self.url}: {why}")
        for tried in range(self.retries + 1):
            try:
                content = self._send(path, body)
                break
            except urllib.error.HTTPError as error:
                problem, pause = f"answered {error.code} {error.reason}", _seconds(error.headers.get("Retry-After"))
                refused = error.code != 429 and error.code < 500
                says = self._explained(error) if refused else ""
                error.close()
                if refused:
                    raise TrothError(f"endpoint {self.url} {problem} for model {self.model!r}{says}") from None
            except (urllib.error.URLError, ConnectionError, TimeoutError, http.client.HTTPException) as error:
                reason, pause = getattr(error, "reason", error), 0.0
                slow = isinstance(reason, TimeoutError)
                problem = f"gave no answer within {self.timeout:g} s" if slow else f"cannot be reached ({reason!s})"
            if tried < self.retries:
                time.sleep(min(max(pause, self.backoff * 2**tried), _LONGEST_PAUSE))
        else:
            raise TrothError(
                f"endpoint {self.url} {problem}, {self.retries + 1} times; check that the server is running, "
                "or raise retries or timeout"
            )
        try:
            return json.loads(content)
        except ValueError:
            raise self.garbled(protocol) from None

    def garbled(self, protocol: str) -> TrothError:
        """The error of an answer that nobody can read."""
        return TrothError(f"endpoint {self.url} does not answer in the format of {protocol}")

    def _send(self, path: str, body: dict[str, Any]) -> bytes:
        headers = {"Content-Type": "application/json"}
        key = os.environ.get(self.key_variable)
        if key:
            headers["Authorization"] = f"Bearer {key}"
        url = self.url.rstrip("/")
        url = url if url.endswith(path) else url + path
        request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
        with _OPENER.open(request, timeout=self.timeout) as response:
            content: bytes = response.read()
        return content

    def _explained(self, error: urllib.error.HTTPError) -> str:
        """What a refusal says, without the key; of a refused key only how to give one."""
        key = os.environ.get(self.key_variable)
        if error.code in (401, 403):
            return f"; is the key in {self.key_variable} right?" if key else f"; put the key into {self.key_variable}"
        if error.code not in _SPEAKING:
            return ""
        try:
            said = json.loads(error.read())
        except (OSError, ValueError, http.client.HTTPException):
            return ""
        for name in ("error", "message", "detail"):
            said = said.get(name, said) if isinstance(said, dict) else said
        text = " ".join(str(said).split())
        text = text.replace(key, "…") if key else text
        return f": {text[:_LONGEST]}" if isinstance(said, str) and text else ""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def _seconds(text: str | None) -> float:
    """Retry-After, a number of seconds or a date, as seconds from now.

    >>> _seconds("7"), _seconds("0.5"), _seconds("soon"), _seconds("Wed, 21 Oct 2015 07:28:00 GMT")
    (7.0, 0.5, 0.0, 0.0)
    """
    try:
        seconds = float(text or 0)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text or "").timestamp() - time.time()
        except ValueError:
            seconds = 0.0
    return seconds if 0 <= seconds < float("inf") else 0.0
