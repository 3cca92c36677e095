"""Reads files that users name: regular files only, up to a size limit, with compressed data counted as it expands.

Every other module of the package reads such files through this one (`tests/test_architecture.py`). JSON and TOML are
limited in nesting and digits, so that code that traverses or prints them does not fail later.
"""

import gzip
import io
import json
import math
import os
import re
import stat
import sys
import tomllib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from troth.core.errors import TrothError

VARIABLE = "TROTH_MAX_FILE"
PLAN = 1 << 20  # bytes of a plan file
SETTINGS = 64 << 20  # bytes of JSON that describes something, of code, of standard input
DATA = 2 << 30  # bytes of examples, scores and word vectors
LINE = 64 << 20  # bytes of one line of data
_RATIO, _ALWAYS = 100, 1 << 20  # text rarely compresses by more than 20 to 1; small files may exceed the ratio
_DEPTH = 100
_BUFFER = 1 << 17
_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


class UnreadableError(TrothError):
    """The file is not a regular file, is too large, or is an incomplete compressed file."""


class ExcessError(ValueError):
    """JSON or TOML with too much nesting or too many digits."""


def content(path: str | os.PathLike[str], limit: int = SETTINGS) -> bytes:
    """All bytes of a file, decompressed if its name ends in .gz."""
    with opened(path, limit) as stream:
        return stream.read()


def text(path: str | os.PathLike[str], limit: int = SETTINGS) -> str:
    """The content of a UTF-8 file."""
    return content(path, limit).decode("utf-8")


def json_of(path: str | os.PathLike[str], limit: int = SETTINGS) -> Any:
    """The value in a JSON file; raises ValueError if it is not JSON or is nested too deeply."""
    return parse_json(content(path, limit))


def lines(path: str | os.PathLike[str], limit: int = DATA) -> Iterator[str]:
    r"""The lines of a UTF-8 file with their ends; only \n ends a line. One line is in memory at a time."""
    name, longest = Path(path).name, allowed(LINE)
    with opened(path, limit) as stream:
        for number, line in enumerate(iter(lambda: stream.readline(longest + 1), b""), start=1):
            if len(line) > longest:
                raise UnreadableError(
                    f"{name}: line {number} is longer than {size(longest)}; put one example on a line, "
                    f"or raise the limit with {VARIABLE}={size(2 * longest, '')}"
                )
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise TrothError(f"{name}: line {number} is not UTF-8; save the file as UTF-8") from None


def standard_input() -> Iterator[str]:
    """The lines of standard input, up to the limit for settings."""
    limit, seen = allowed(SETTINGS), 0
    while line := sys.stdin.readline(limit + 1):
        seen += len(line)
        if seen > limit:
            raise UnreadableError(
                f"standard input has more than {size(limit)}; save it as a file and pass --data, "
                f"or raise the limit with {VARIABLE}={size(2 * limit, '')}"
            )
        yield line


@contextmanager
def opened(path: str | os.PathLike[str], limit: int = SETTINGS) -> Iterator[io.BufferedIOBase]:
    """Opens a file for reading bytes, decompressed if its name ends in .gz. Raises OSError as `open` does."""
    limit = allowed(limit)
    # Checked before opening, because opening some devices has side effects.
    _require_regular(path, os.stat(path), limit)
    with open(path, "rb", buffering=0, opener=_without_waiting) as file:
        _require_regular(path, os.fstat(file.fileno()), limit)
        if not os.fspath(path).endswith(".gz"):
            yield io.BufferedReader(_Counted(file, path, limit), _BUFFER)
            return
        try:
            with _unzipped(file, path, limit) as counted:  # checks the whole file before any line is parsed
                while counted.read(1 << 20):
                    pass
            file.seek(0)
            with _unzipped(file, path, limit) as stream:
                yield stream
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise UnreadableError(f"{Path(path).name} is not a complete gzip file") from None


def _unzipped(file: Any, path: Any, limit: int) -> io.BufferedReader:
    compressed = _Counted(file, path, limit)
    unzipped = gzip.GzipFile(fileobj=io.BufferedReader(compressed, _BUFFER))
    return io.BufferedReader(_Counted(unzipped, path, limit, compressed), _BUFFER)


def require_size(path: str | os.PathLike[str], count: int, limit: int, holds: str = "has") -> None:
    """Raises a one-line error for a file that has, or expands to, too many bytes."""
    limit = allowed(limit)
    if count > limit:
        raise UnreadableError(
            f"{path} {holds} {size(count)}, and at most {size(limit)} are read; use a smaller file, "
            f"or raise the limit with {VARIABLE}={size(2 * count, '')}"
        )


def require_file(path: str | os.PathLike[str], limit: int) -> None:
    """Checks a file as `opened` does, for files that another library reads."""
    _require_regular(path, os.stat(path), allowed(limit))


def allowed(limit: int) -> int:
    """The effective limit: the default, or the one from the environment."""
    given = os.environ.get(VARIABLE, "").strip()
    return bytes_of(given, VARIABLE) if given else limit


def bytes_of(given: str, name: str) -> int:
    """The number of bytes that a text such as 8GB stands for.

    >>> bytes_of("8GB", "--memory"), bytes_of("1.5 kb", "--memory")
    (8589934592, 1536)
    """
    parts = re.fullmatch(r"\s*([0-9]{1,12}(?:\.[0-9]{1,3})?)\s*([A-Za-z]{0,2})\s*", given, re.ASCII)
    count = int(float(parts[1]) * _UNITS.get(parts[2].upper(), 0)) if parts else 0
    if count < 1:
        raise TrothError(f"{name} must be a size such as 500MB or 8GB, not {given[:40]!r}")
    return count


def size(count: int, between: str = " ") -> str:
    """A number of bytes in readable form: 1.5 GB, 64 MB."""
    unit = next(name for name in ("TB", "GB", "MB", "KB", "B") if count >= _UNITS[name] or name == "B")
    number = f"{count / _UNITS[unit]:.1f}".removesuffix(".0")
    return f"{number}{between}{unit}"


def parse_json(given: str | bytes, *, strict: bool = False) -> Any:
    """Parses JSON; raises ValueError if it is invalid, and ExcessError if it is nested too deeply or its numbers are
    too long.

    `strict` also rejects duplicate fields and numbers that are not finite.

    >>> parse_json('{"a": 1, "a": 2}', strict=True)
    Traceback (most recent call last):
    ValueError: the field 'a' occurs twice
    """
    with _excess():
        value = json.loads(given, **_STRICT) if strict else json.loads(given)
    # Counting brackets is fast, and nearly every text has fewer than the nesting limit.
    brackets = given.count("[") + given.count("{") if isinstance(given, str) else given.count(b"[") + given.count(b"{")
    if brackets > _DEPTH:
        for _ in _values(value):
            pass
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"the field {name!r} occurs twice")
        fields[name] = value
    return fields


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not a number in JSON")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is too large")
    return value


_STRICT: dict[str, Any] = {"object_pairs_hook": _once, "parse_constant": _refuse, "parse_float": _finite}


def parse_toml(given: str) -> dict[str, Any]:
    """Parses TOML with 64-bit integers; raises the same errors as `parse_json`."""
    if _LONG_KEY.search(given):  # tomllib takes quadratic time for long dotted keys
        raise ExcessError(_TOO_DEEP)
    with _excess():
        table = tomllib.loads(given)
    for value in _values(table):
        if isinstance(value, int) and value.bit_length() > 63:
            raise ExcessError("contains an integer of more than 64 bits; write it as text")
    return table


_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY = re.compile(rf"(?<![\w-]){_PART}(?:\.[ \t]*+{_PART}){{{_DEPTH}}}")  # dotted keys such as a.b.c
_TOO_DEEP = f"is nested too deeply: more than {_DEPTH} lists or objects in each other"
_TOO_LONG = "contains an integer with more digits than can be read; write it as text"


@contextmanager
def _excess() -> Iterator[None]:
    """Converts the errors of Python's parsers for too much nesting or too many digits to ExcessError."""
    try:
        yield
    except (json.JSONDecodeError, tomllib.TOMLDecodeError):
        raise
    except RecursionError:
        raise ExcessError(_TOO_DEEP) from None
    except ValueError as problem:
        raise ExcessError(_TOO_LONG) if "digits" in str(problem) else problem from None


def _values(value: Any) -> Iterator[Any]:
    """Every value in parsed data, level by level; raises ExcessError if there are too many levels."""
    level = [value]
    for _ in range(_DEPTH + 1):
        yield from level
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise ExcessError(_TOO_DEEP)


def _require_regular(path: str | os.PathLike[str], status: os.stat_result, limit: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(21, "is a folder, not a file", os.fspath(path))
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise UnreadableError(f"{path} is {kind}, not a regular file; save its content as a file and name that file")
    require_size(path, status.st_size, limit)


def _without_waiting(path: str, flags: int) -> int:
    # Opening a FIFO that has replaced the file in the meantime would block, as would some files in /proc.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


class _Counted(io.RawIOBase):
    """A stream that raises an error beyond the limit: a file may grow, and compressed data expands."""

    def __init__(self, stream: Any, path: Any, limit: int, compressed: Self | None = None) -> None:
        self._stream, self._path, self._limit, self._compressed = stream, path, limit, compressed
        self.seen = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._stream.readinto(buffer)
        if count is None:
            raise UnreadableError(
                f"{self._path} can only be read in pieces, like a device; copy it to a regular file first"
            )
        self.seen += count
        require_size(self._path, self.seen, self._limit, "has" if self._compressed is None else "expands to over")
        if self._compressed is not None and self.seen > max(_ALWAYS, _RATIO * self._compressed.seen):
            raise UnreadableError(
                f"{self._path} expands to more than {_RATIO} times its size, which real data never does; "
                "if you trust it, decompress it first and name that file"
            )
        return int(count)
