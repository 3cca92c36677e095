"""Atomic writes: files and folders either exist completely or not at all, also after a crash, on any file system that
supports renaming.
"""

import errno
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from troth.core.errors import TrothError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_ABANDONED = 3600.0  # seconds after which a file that was never renamed is considered abandoned


class CannotWriteError(TrothError):
    """Nothing can be written: the run has to stop, but completed results are safe."""


@contextmanager
def writing_aside(path: Path, *, lasting: bool = True, sole_writer: bool = False) -> Iterator[Path]:
    """Yields a hidden path for a file or folder, which is flushed and renamed to `path` last, so that `path` exists
    only when complete.

    Without `lasting`, a power failure may undo the rename, but never leaves half a file. A `sole_writer` replaces the
    partial file that it left when it was killed; otherwise other processes may write the same path at the same time.
    """
    _require_replaceable(path)
    aside = path.with_name(f".{path.name}.{'partial' if sole_writer else uuid4().hex[:8]}")
    path.parent.mkdir(parents=True, exist_ok=True)
    if sole_writer:
        _remove(aside)
    try:
        yield aside
        _flush(aside)
        _replace(aside, path)
    except BaseException:
        _remove(aside)
        raise
    if lasting:
        sync_folder(path.parent)


@contextmanager
def writing_into(folder: Path) -> Iterator[Path]:
    """Yields a hidden folder whose files are moved to `folder`, next to existing files, once all of them are
    written.
    """
    aside = folder / ".partial"
    _remove(aside)
    try:
        aside.mkdir(parents=True)
        yield aside
        _flush(aside)
        for file in sorted(aside.iterdir()):
            file.replace(folder / file.name)
    finally:
        _remove(aside)


def write_aside(path: Path, data: bytes, *, lasting: bool = True, sole_writer: bool = False) -> None:
    """Writes the whole file or nothing, with `writing_aside`."""
    try:
        with writing_aside(path, lasting=lasting, sole_writer=sole_writer) as aside, open(aside, "xb") as file:
            file.write(data)
    except OSError as error:
        raise cannot_write(path, error) from error


def write_output(path: Path, data: bytes, *, own: bool = False) -> None:
    """Writes a file that the user named: a new or existing regular file, the target of a link, a pipe or a terminal.

    For our `own` files in a folder that somebody else may have created, a link that leads out of the folder and
    anything but a regular file are rejected.
    """
    try:
        if own and path.is_symlink() and not path.resolve().is_relative_to(path.parent.resolve()):
            raise CannotWriteError(f"{path} is a link to {path.resolve()}, outside of its folder; remove the link")
        mode = path.stat().st_mode if path.exists() else stat.S_IFREG
        if own or (stat.S_ISREG(mode) and not _is_open_file(path)):
            write_aside(Path(os.path.realpath(path)), data, lasting=False)
        elif stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
            raise CannotWriteError(f"{path} is {_kind(mode)}; name a file")
        else:
            with open(path, "ab") as file:  # raises an error for a folder
                file.write(data)
    except OSError as error:
        raise cannot_write(path, error) from error


def write_json(path: Path, value: Any, indent: int | None = None) -> None:
    """Writes one value as JSON; no other process may write this path."""
    write_aside(path, (json.dumps(value, indent=indent, ensure_ascii=False) + "\n").encode(), sole_writer=True)


def cannot_write(path: Path, error: OSError) -> CannotWriteError:
    """A one-line error for a failed write."""
    reason = "the disk is full" if is_full(error) else "it cannot be written"
    return CannotWriteError(f"{path}: {reason} ({error.strerror or error})")


def remedy(error: BaseException | None) -> str:
    """The remedy for a failed write: free space if the disk is full, otherwise permission."""
    # Also recognizes errors of libraries that quote the message instead of raising OSError.
    words = {os.strerror(number) for number in _FULL}
    while error is not None:
        if is_full(error) or any(word in str(error) for word in words):
            return "make room"
        error = error.__cause__
    return "make its folder writable"


def is_full(error: BaseException) -> bool:
    """Whether no space was left: on the disk, in a quota, or within a limit on file size."""
    return isinstance(error, OSError) and error.errno in _FULL


def sync_folder(folder: Path) -> None:
    """Makes a rename survive a power failure."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        pass  # not supported by some network file systems, which order renames themselves
    finally:
        os.close(handle)


def remove_abandoned(folder: Path) -> None:
    """Removes partial files that killed processes left behind."""
    for path in folder.glob(".*"):
        try:
            if time.time() - path.stat().st_mtime > _ABANDONED:
                path.unlink()
        except OSError:
            continue  # another process removed it first


def _require_replaceable(path: Path) -> None:
    """Raises an error if renaming a file to this path would replace a device, a pipe or a socket."""
    with suppress(OSError, ValueError):
        mode = path.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            raise CannotWriteError(f"{path} is {_kind(mode)}, which is never replaced; name a file")


def _kind(mode: int) -> str:
    is_device = stat.S_ISBLK(mode) or stat.S_ISCHR(mode)
    return "a device" if is_device else "a socket" if stat.S_ISSOCK(mode) else "a pipe"


def _is_open_file(path: Path) -> bool:
    """Whether a path such as /dev/stdout refers to a file that a process has open, which replacing the path would
    lose.
    """
    for _ in range(40):  # as many links as Linux follows
        if path.parent.resolve().is_relative_to("/proc"):
            return True
        if not path.is_symlink():
            return False
        path = path.parent / os.readlink(path)
    return False


def _flush(path: Path) -> None:
    """Flushes a file, or all files of a folder, to the disk."""
    for file in path.rglob("*") if path.is_dir() else [path]:
        if file.is_file():
            with open(file, "r+b") as handle:
                os.fsync(handle.fileno())


def _replace(aside: Path, path: Path) -> None:
    """Replaces a file, or a folder, which has to be moved out of the way first."""
    if not (aside.is_dir() and path.is_dir()):
        os.replace(aside, path)
        return
    old = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    path.rename(old)
    os.replace(aside, path)
    shutil.rmtree(old, ignore_errors=True)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)
