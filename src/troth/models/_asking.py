"""Sends requests to an endpoint, several at a time, and keeps the answers on disk: repeated requests cost nothing.

One line is appended per answer before the next request is sent; an unfinished line is ignored. The requests themselves
are not stored, only a hash of each.
"""

import hashlib
import json
import math
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from troth.core import arguments, trust
from troth.core.errors import TrothError
from troth.core.files import cannot_write
from troth.models._endpoint import Endpoint
from troth.models._protocols import NoLogProbabilities, Protocol, Request

_BATCH = 16  # questions per request, where a server takes several
Prices = Sequence[float]  # per million tokens read, and written


@dataclass(frozen=True)
class Usage:
    """How many requests were sent to an endpoint, and how many tokens it read and wrote."""

    requests: int = 0
    read: int = 0  # tokens
    written: int = 0  # tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.requests + other.requests, self.read + other.read, self.written + other.written)

    def __sub__(self, other: "Usage") -> "Usage":
        return Usage(self.requests - other.requests, self.read - other.read, self.written - other.written)


class KeptAnswers:
    """The answers of one endpoint and model: in a file that several processes may share, or in memory alone."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.usage = Usage()  # of all that is in the file
        self._places: dict[str, tuple[int, int]] = {}  # where in the file an answer begins, and its length
        self._kept: dict[str, Any] = {}  # without a file
        self._seen = 0  # bytes of the file
        self._lock = threading.Lock()
        self.refresh()

    def refresh(self) -> None:
        """Reads the lines that other processes have appended."""
        if self.path is None or not self.path.is_file():
            return
        with self._lock, open(self.path, "rb") as file:
            file.seek(self._seen)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # another process is still writing it
                self._note(line)
                self._seen += len(line)

    def __contains__(self, key: str) -> bool:
        return key in self._places or key in self._kept

    def __getitem__(self, key: str) -> Any:
        if key in self._kept:
            return self._kept[key]
        start, length = self._places[key]
        assert self.path is not None
        with open(self.path, "rb") as file:
            file.seek(start)
            return json.loads(file.read(length))

    def add(self, key: str, answer: Any, usage: Usage) -> None:
        """Keeps an answer; it is on the disk when this returns."""
        if self.path is None:
            with self._lock:
                self._kept[key] = answer
                self.usage += usage
            return
        written = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        # The leading line break ends a line that a crash left unfinished, so that this one can be read.
        line = f"\n{key} {usage.requests} {usage.read} {usage.written} {written}\n".encode()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab", 0, opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                if file.write(line) < len(line):
                    raise OSError("only a part of it was written")
                os.fsync(file.fileno())
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def _note(self, line: bytes) -> None:
        parts = line.rstrip(b"\n").split(b" ", 4)
        try:
            key, numbers = parts[0].decode(), [int(part) for part in parts[1:4]]
            json.loads(parts[4])
        except (ValueError, IndexError):
            return  # an empty line, or an unfinished one
        self._places[key] = (self._seen + len(line) - 1 - len(parts[4]), len(parts[4]))
        self.usage += Usage(*numbers)


class Asking:
    """An endpoint, its protocol, and the answers received so far.

    `cache` is the folder where answers are kept: by default in TROTH_CACHE, else in the user's cache folder.
    `max_requests` is a budget: once so many requests were sent, the next one is refused.
    """

    def __init__(
        self,
        url: str,
        protocol: Protocol,
        *,
        parallel: int = 8,
        retries: int = 5,
        timeout: float = 60.0,
        backoff: float = 1.0,
        key_variable: str | None = None,
        max_requests: int | None = None,
        cache: bool | str | Path = True,
    ) -> None:
        numbers = [("top", protocol.top, 1), ("parallel", parallel, 1), ("retries", retries, 0)]
        for name, value, least in [*numbers, *([] if max_requests is None else [("max_requests", max_requests, 0)])]:
            arguments.of_kind(name, value, int, "a whole number")
            if value < least:
                raise TrothError(f"{name} must be {least} or more, not {value}")
        for name, seconds in (("timeout", timeout), ("backoff", backoff)):
            if not is_number(seconds) or not seconds > 0:
                raise TrothError(f"{name} must be a number of seconds above 0, not {seconds!r}")
        if key_variable and not os.environ.get(key_variable):
            raise TrothError(
                f"the environment variable {key_variable} is not set; put the key there: export {key_variable}=…"
            )
        key = trust.KEY_VARIABLE if key_variable is None else key_variable  # "" sends none
        self.endpoint = Endpoint(url, protocol.model, key, float(timeout), retries, float(backoff))
        self.protocol, self.parallel = protocol, parallel
        self.reused = 0  # answers that were already known
        self.max_requests = max_requests
        self._sent, self._counting = 0, threading.Lock()
        name = hashlib.sha256(json.dumps([url, protocol.model]).encode()).hexdigest()[:16]
        if cache is True:
            usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "troth"
            cache = Path(os.environ.get("TROTH_CACHE") or usual) / "answers"
        self._answers = KeptAnswers(None if cache is False else Path(cache) / f"{name}.txt")
        self._before = self._answers.usage

    def answers(self, asked: Sequence[Request]) -> Iterator[Any]:
        """The answer to each question: log-probabilities, or what was written. Known answers cost nothing."""
        questions = (json.dumps([self.endpoint.url, question.body], sort_keys=True) for question in asked)
        keys = [hashlib.sha256(text.encode()).hexdigest()[:32] for text in questions]
        self._answers.refresh()
        new = {key: question for key, question in zip(keys, asked, strict=True) if key not in self._answers}
        self.reused += len(set(keys)) - len(new)
        waiting = list(new.items())
        # Each text is written with a seed of its own, which questions in one request would share.
        step = _BATCH if self.protocol.joins and not (asked and asked[0].writes) else 1
        with ThreadPoolExecutor(self.parallel) as pool:
            # An error cancels the requests that were not sent yet; answers to the others are still kept.
            list(pool.map(self._ask, (waiting[at : at + step] for at in range(0, len(waiting), step))))
        self._answers.refresh()
        return iter([self._answers[key] for key in keys])

    def _ask(self, questions: Sequence[tuple[str, Request]]) -> None:
        protocol, asked = self.protocol, [question for _, question in questions]
        self._count()
        reply = self.endpoint.post(protocol.path, protocol.join(asked), protocol.name)
        try:
            found: Sequence[Any] = (protocol.texts if asked[0].writes else protocol.read)(reply, asked)
            tokens = protocol.tokens(reply)
        except NoLogProbabilities:
            what, servers = "log-probabilities", "OpenAI, vLLM, TGI"
            if protocol.reads_prompt:
                what, servers = f"{what} of the prompt", "vLLM, TGI"
            raise TrothError(
                f"endpoint {self.endpoint.url} gives no {what} for model {self.endpoint.model!r}, which explaining "
                f"needs; use a server that does ({servers}) or another api=; a continuation is explained without them "
                "by compare="
            ) from None
        except (LookupError, TypeError, ValueError, AttributeError):
            raise self.endpoint.garbled(protocol.name) from None
        usage = Usage(1, *tokens)
        for (key, _), answer in zip(questions, found, strict=True):
            self._answers.add(key, answer, usage)
            usage = Usage()  # a request is counted once, however many questions it answers

    def requests_for(self, questions: int, rounds: int = 1) -> int:
        """At most how many requests so many questions take, if only those of a round can share requests."""
        return min(questions, -(-questions // _BATCH) + rounds - 1) if self.protocol.joins else questions

    def _count(self) -> None:
        """Counts a request that is about to be sent, within the budget."""
        with self._counting:
            if self.max_requests is not None and self._sent >= self.max_requests:
                raise TrothError(
                    f"max_requests: {self._sent:,} requests were sent to {self.endpoint.url}, and more are needed; all "
                    "answers are kept, so the same command continues from here: repeat it, or raise --max-requests"
                )
            self._sent += 1

    @property
    def usage(self) -> Usage:
        """Requests and tokens since this object was made, of all processes that share the answers."""
        self._answers.refresh()
        return self._answers.usage - self._before


def is_number(value: Any) -> bool:
    """Whether it is a finite number; bool is rejected."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
