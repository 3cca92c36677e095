"""Claims divide the work among processes that share a store, also over a network file system: a process claims a cell
before it computes it.

A claim is a file that is created exclusively. A heartbeat renews its modification time, and the claim of a dead owner
is taken over. Claims only avoid duplicate work: two processes that compute the same cell write the same file, so no
result depends on a claim.
"""

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from troth.core.files import cannot_write
from troth.store import records
from troth.store.records import DamagedError

BEAT = 10.0  # seconds between two heartbeats
DEAD = 60.0  # seconds without a heartbeat after which an owner is dead
_UNSIGNED = 5.0  # seconds after which a claim without an owner is dead: the process was killed while writing it

_living: set[str] = set()  # claims of this process, so that a claim abandoned after an error does not look alive


class Claims:
    """The claims of one store, as seen by one process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        pid = os.getpid()
        # Identifies this process among those of all machines, containers and times.
        self._owner = {"host": _host(), "pid": str(pid), "started": _started(pid), "token": uuid4().hex}
        self._mine: set[str] = set()
        self._closed: threading.Event | None = None  # stops the heartbeat, which runs while there are claims

    def take(self, name: str) -> bool:
        """Claims a cell; False if a living process holds the claim."""
        _living.add(self._owner["token"])
        path = self.folder / name
        if not self._create(path) and not (self._dead(path) and self._remove_dead(path) and self._create(path)):
            return False
        self._mine.add(name)
        if self._closed is None:
            self._closed = threading.Event()
            threading.Thread(target=self._beat, args=(self._closed,), daemon=True, name="troth-heartbeat").start()
        return True

    def drop(self, name: str) -> None:
        self._mine.discard(name)
        if not self._mine:
            self._stop()
        (self.folder / name).unlink(missing_ok=True)

    @contextmanager
    def lock(self, name: str, patience: float = 10.0) -> Iterator[None]:
        """Waits for a claim; after `patience` seconds continues without it, since claims only avoid duplicate work."""
        until = time.monotonic() + patience
        while not (mine := self.take(name)) and time.monotonic() < until:
            time.sleep(0.05)
        try:
            yield
        finally:
            if mine:
                self.drop(name)

    def close(self) -> None:
        """Releases all claims; the object can be used again."""
        for name in list(self._mine):
            with contextlib.suppress(OSError):
                self.drop(name)
        _living.discard(self._owner["token"])

    def _stop(self) -> None:
        """Ends the heartbeat."""
        if self._closed is not None:
            self._closed.set()
            self._closed = None

    def _create(self, path: Path) -> bool:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return False
        except OSError as error:
            raise cannot_write(path, error) from error
        try:
            os.write(handle, json.dumps(self._owner).encode())
        except OSError as error:
            path.unlink(missing_ok=True)
            raise cannot_write(path, error) from error
        finally:
            os.close(handle)
        return True

    def _dead(self, path: Path) -> bool:
        try:
            owner = records.read(path, records.Owner) if path.is_symlink() or path.stat().st_size else None
            if owner is not None and owner["host"] == self._owner["host"]:
                return not _alive(owner)
            return self._silent(path, DEAD if owner is not None else _UNSIGNED)
        except FileNotFoundError:
            return True  # released in the meantime
        except DamagedError:
            return True  # incomplete owner: killed while writing it, or not a claim of ours

    def _silent(self, path: Path, seconds: float) -> bool:
        """Whether there was no heartbeat for the given time; a time in the future does not count as one."""
        return abs(self._now() - path.lstat().st_mtime) > seconds

    def _remove_dead(self, path: Path) -> bool:
        """Removes a dead claim. Only one process at a time may do so, because a claim that was dead may have been taken
        again.
        """
        guard = path.with_name(f".{path.name}.removal")
        try:
            os.close(os.open(guard, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError):  # left by a process that was killed while removing it
                if self._silent(guard, _UNSIGNED):
                    _remove(guard)
            return False
        except OSError as error:
            raise cannot_write(guard, error) from error
        try:
            before = _version(path)
            if not self._dead(path) or _version(path) != before:
                return False
            _remove(path)
            return True
        except FileNotFoundError:
            return True  # released in the meantime: the first process that creates it holds it
        finally:
            guard.unlink(missing_ok=True)

    def _now(self) -> float:
        """The file server's clock, because the clocks of machines differ."""
        clock = self.folder / f".clock.{self._owner['token'][:8]}"
        try:
            clock.write_bytes(b"")
        except OSError as error:
            raise cannot_write(clock, error) from error
        now = clock.stat().st_mtime
        clock.unlink(missing_ok=True)
        return now

    def _beat(self, closed: threading.Event) -> None:
        while not closed.wait(BEAT):
            for name in list(self._mine):
                with contextlib.suppress(OSError):
                    os.utime(self.folder / name)


def _version(path: Path) -> tuple[int, int]:
    """Identifies the file: a claim that was released may have been taken again."""
    status = path.lstat()
    return status.st_ino, status.st_mtime_ns


def _remove(path: Path) -> None:
    """Removes the file; a folder is not ours and is only renamed."""
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name(f".{path.name}.{uuid4().hex[:8]}"))
    else:
        path.unlink(missing_ok=True)


def _alive(owner: dict[str, str]) -> bool:
    pid = int(owner["pid"]) if owner["pid"].isdecimal() else 0
    if not 0 < pid < 1 << 31:
        return False
    if pid == os.getpid():
        return owner["token"] in _living
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _started(pid) == owner["started"]


def _started(pid: int) -> str:
    """The start time of a process as the kernel counts it, because process ids are reused; None if the process has
    ended.
    """
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if state in "ZX" else fields[18]


def _host() -> str:
    """The machine, its current boot and the container: process ids are only unique within all three."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)
