"""Files and folders that are either whole or not there, also after a crash, on any file system that can rename."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from troth.core.errors import TrothError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_ABANDONED = 3600.0  # seconds after which a file that was never renamed is litter


class CannotWriteError(TrothError):
    """The disk takes no more: the run has to stop, and what is finished is safe."""


@contextmanager
def writing_aside(path: Path, *, lasting: bool = True, sole_writer: bool = False) -> Iterator[Path]:
    """A hidden path to write a file or a folder to; flushed and renamed to `path` last, so existing means finished.

    Where it need not be `lasting`, a power cut may undo the rename; it never leaves half a file. A `sole_writer`
    replaces what it left behind when it was killed; other processes may write the same path at the same time.
    """
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
    """A hidden folder whose files move to `folder`, next to what is there, once all of them are written."""
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
    """Writes a whole file or none, as `writing_aside` does."""
    try:
        with writing_aside(path, lasting=lasting, sole_writer=sole_writer) as aside, open(aside, "xb") as file:
            file.write(data)
    except OSError as error:
        raise cannot_write(path, error) from error


def write_json(path: Path, value: Any, indent: int | None = None) -> None:
    """One value as JSON, written by the only process that writes there."""
    write_aside(path, (json.dumps(value, indent=indent, ensure_ascii=False) + "\n").encode(), sole_writer=True)


def cannot_write(path: Path, error: OSError) -> CannotWriteError:
    """One line about a disk that refused."""
    reason = "the disk is full" if is_full(error) else "it cannot be written"
    return CannotWriteError(f"{path}: {reason} ({error.strerror or error})")


def is_full(error: BaseException) -> bool:
    """Whether there was no room: on the disk, in a quota, under a limit of file size."""
    return isinstance(error, OSError) and error.errno in _FULL


def sync_folder(folder: Path) -> None:
    """Makes a rename outlast a power cut."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        pass  # some network file systems refuse; they order renames themselves
    finally:
        os.close(handle)


def remove_abandoned(folder: Path) -> None:
    """Drops what a killed process had begun to write."""
    for path in folder.glob(".*"):
        try:
            if time.time() - path.stat().st_mtime > _ABANDONED:
                path.unlink()
        except OSError:
            continue  # another process was faster


def _flush(path: Path) -> None:
    """On the disk, not only on its way there."""
    for file in path.rglob("*") if path.is_dir() else [path]:
        if file.is_file():
            with open(file, "r+b") as handle:
                os.fsync(handle.fileno())


def _replace(aside: Path, path: Path) -> None:
    """Takes the place of a file, or of a folder, which has to be moved out of the way first."""
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
