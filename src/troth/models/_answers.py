"""What an endpoint has answered, on disk by what was asked: whoever asks again, in whatever process, asks nobody.

One line is appended per answer, before the next question is asked, and a line that was never finished is no answer. The
questions themselves are not kept: only a hash of each.
"""

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from troth.core.files import cannot_write


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


def folder() -> Path:
    """Where answers are kept: TROTH_CACHE, else the user's cache folder."""
    home = os.environ.get("TROTH_CACHE")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "troth"
    return (Path(home) if home else cache) / "answers"


def key_of(url: str, body: Mapping[str, Any]) -> str:
    """The hash that a question is known by."""
    return hashlib.sha256(json.dumps([url, body], sort_keys=True).encode()).hexdigest()[:32]


class Answers:
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
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                if os.write(handle, line) < len(line):
                    raise OSError("only half of it was written")
                os.fsync(handle)
            finally:
                os.close(handle)
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
