"""Locks an output folder for one writer: a second process gets an error that names the first, and a dead process holds
no lock.

The operating system keeps the lock and releases it when the process ends, however it ends; the file only says which
process holds it.
"""

import errno
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from troth.core.errors import TrothError
from troth.core.files import cannot_write

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"
_BUSY = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder; raises an error if a running process holds it.

    A missing folder is created, and removed again if nothing was written to it. In distributed training, the first
    process holds the lock for all.
    """
    is_new = not folder.exists()
    handle = _locked(folder) if _is_first() else None
    try:
        if handle is not None:
            about = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
            with suppress(OSError):  # on a full disk, the lock is still held
                os.ftruncate(handle, 0)
                os.write(handle, json.dumps(about).encode())
        yield
    finally:
        if handle is not None:
            with suppress(OSError):  # before unlocking: a process that has just opened this file then tries again
                (folder / NAME).unlink()
            os.close(handle)
        if is_new:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


def require_free(folder: Path) -> None:
    """Raises an error if a running process writes to a folder, without creating anything; called before any work."""
    if (folder / NAME).is_file() and _is_first():
        with held(folder):
            pass


def _locked(folder: Path) -> int | None:
    """The handle of an open, locked file; None if the file system does not support locks."""
    path = folder / NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
            try:
                if fcntl is not None:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(handle)
                if error.errno in _BUSY:
                    raise _busy(folder) from None
                return None
            if _is_same(handle, path):
                return handle
            os.close(handle)  # the lock was released and its file removed while it was being opened
    except OSError as error:
        raise cannot_write(path, error) from error


def _is_same(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def _busy(folder: Path) -> TrothError:
    who = "another process"
    with suppress(OSError, ValueError, KeyError, TypeError):
        about = json.loads((folder / NAME).read_bytes()[:1000])
        who = f"process {int(about['pid'])} on {about['host']}, since {about['since']}"
    return TrothError(f"{folder} is being written by {who}; wait for it, or choose another --out")


def _is_first() -> bool:
    return os.environ.get("RANK", "0") == "0"
