"""Files that are either whole or not there, also after a crash, on any file system that can rename."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from uuid import uuid4

from troth.core.errors import TrothError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_ABANDONED = 3600.0  # seconds after which what was never renamed is litter


class CannotWriteError(TrothError):
    """The store takes no more: the run has to stop, and what is finished is safe."""


def write_aside(path: Path, data: bytes, *, lasting: bool = True) -> None:
    """Written under another name, flushed to the disk, renamed last: existing means finished.

    Where it need not be `lasting`, a power cut may undo the rename; it never leaves half a file.
    """
    aside = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    try:
        try:
            file = open(aside, "xb")  # noqa: SIM115  # closed below, before the rename
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = open(aside, "xb")  # noqa: SIM115
        with file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        _forget(aside)
        raise cannot_write(path, error) from error
    except BaseException:
        _forget(aside)
        raise
    if lasting:
        sync_folder(path.parent)


def cannot_write(path: Path, error: OSError) -> CannotWriteError:
    """One line about a disk that refused."""
    reason = "the disk is full" if is_full(error) else "it cannot be written"
    return CannotWriteError(f"{path}: {reason} ({error.strerror or error})")


def is_full(error: BaseException) -> bool:
    """Whether room is what was lacking: on the disk, in a quota, under a limit of file size."""
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
            continue  # somebody else was faster


def _forget(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return
