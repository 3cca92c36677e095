"""Questions to an endpoint, several at a time; answers are kept on disk, so that repeated questions cost nothing.

One line is appended per answer, before the next question is asked, and a line that was never finished is no answer. The
questions themselves are not kept: only a hash of each.
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
from troth.models._protocols import Listed, NoLogProbabilities, Protocol, Request

_BATCH = 16  # questions per request, where a server takes several
Prices = Sequence[float]  # per million tokens read, and written


@dataclass(frozen=True)
class Usage:
    """What was asked of an endpoint."""

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
        """Takes in what others have written meanwhile."""
        if self.path is None or not self.path.is_file():
            return
        with self._lock, open(self.path, "rb") as file:
            file.seek(self._seen)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # somebody is writing it
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
        # A line that a power cut left unfinished ends here, so it cannot swallow this one.
        line = f"\n{key} {usage.requests} {usage.read} {usage.written} {written}\n".encode()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab", 0, opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                if file.write(line) < len(line):
                    raise OSError("only half of it was written")
                os.fsync(file.fileno())
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def _note(self, line: bytes) -> None:
        parts = line.rstrip(b"\n").split(b" ", 4)
        try:
            key, numbers = parts[0].decode(), [int(part) for part in parts[1:4]]
            json.loads(parts[4])
        except (ValueError, IndexError):
            return  # an empty line, or one that was never finished
        self._places[key] = (self._seen + len(line) - 1 - len(parts[4]), len(parts[4]))
        self.usage += Usage(*numbers)


class Asking:
    """An endpoint, the protocol it speaks, and what it has answered so far.

    `cache` is the folder where answers are kept: by default in TROTH_CACHE, else in the user's cache folder.
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
        cache: bool | str | Path = True,
    ) -> None:
        for name, value, least in (("top", protocol.top, 1), ("parallel", parallel, 1), ("retries", retries, 0)):
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
        self.reused = 0  # answers that were known
        name = hashlib.sha256(json.dumps([url, protocol.model]).encode()).hexdigest()[:16]
        if cache is True:
            usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "troth"
            cache = Path(os.environ.get("TROTH_CACHE") or usual) / "answers"
        self._answers = KeptAnswers(None if cache is False else Path(cache) / f"{name}.txt")
        self._before = self._answers.usage

    def answers(self, asked: Sequence[Request]) -> Iterator[Listed]:
        """What the endpoint says to each question; those that it was asked before cost nothing."""
        questions = (json.dumps([self.endpoint.url, question.body], sort_keys=True) for question in asked)
        keys = [hashlib.sha256(text.encode()).hexdigest()[:32] for text in questions]
        self._answers.refresh()
        new = {key: question for key, question in zip(keys, asked, strict=True) if key not in self._answers}
        self.reused += len(set(keys)) - len(new)
        waiting = list(new.items())
        step = _BATCH if self.protocol.joins else 1
        with ThreadPoolExecutor(self.parallel) as pool:
            # An error cancels the requests that have not begun; answers to those under way are still kept.
            list(pool.map(self._ask, (waiting[at : at + step] for at in range(0, len(waiting), step))))
        self._answers.refresh()
        return iter([self._answers[key] for key in keys])

    def _ask(self, questions: Sequence[tuple[str, Request]]) -> None:
        protocol, asked = self.protocol, [question for _, question in questions]
        reply = self.endpoint.post(protocol.path, protocol.join(asked), protocol.name)
        try:
            found, tokens = protocol.read(reply, asked), protocol.tokens(reply)
        except NoLogProbabilities:
            raise TrothError(
                f"endpoint {self.endpoint.url} gives no log-probabilities for model {self.endpoint.model!r}, which "
                "explaining needs; use a server that does (OpenAI, vLLM, TGI), or another api="
            ) from None
        except (LookupError, TypeError, ValueError, AttributeError):
            raise self.endpoint.garbled(protocol.name) from None
        usage = Usage(1, *tokens)
        for (key, _), answer in zip(questions, found, strict=True):
            self._answers.add(key, answer, usage)
            usage = Usage()  # a request is counted once, whatever it answers

    @property
    def usage(self) -> Usage:
        """Requests and tokens since this began, by all processes that share its answers."""
        self._answers.refresh()
        return self._answers.usage - self._before


def is_number(value: Any) -> bool:
    """Whether it is a finite number; bool is rejected."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
