"""The folder a training writes to: an empty one or our own, never somebody else's; found out before any work is done.

A finished folder holds its marker (train.json). From the first file on until then it holds a claim, a hidden file named
after the marker, so that a killed training finds its folder its own.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from troth.core import locks
from troth.core.errors import TrothError


def own_folder(out: Path, marker: str, is_ours: Callable[[Path], bool] = Path.is_file) -> Path:
    """The folder, unless it holds something that is not ours or cannot be written; nothing is made or changed.

    It must be missing, empty, or hold the file `marker`; `is_ours` looks into that file where its name proves nothing.
    """
    folder = require_writable(out)
    if not folder.is_dir():
        return folder
    first = min((entry.name for entry in os.scandir(folder) if entry.name != locks.NAME), default=None)
    ours = claim_file(folder, marker).is_file() or ((folder / marker).is_file() and is_ours(folder / marker))
    if first is not None and not ours:
        lacking = f"its {marker} is not ours" if (folder / marker).exists() else f"it has no {marker} of ours"
        raise TrothError(
            f"{folder} is not empty (it holds {first}) and {lacking}; nothing was changed: choose another --out"
        )
    locks.require_free(folder)
    return folder


def require_writable(out: Path) -> Path:
    """The folder, which is there or could be made; a probe is written and removed, in it or in the nearest above it."""
    folder = Path(out)
    try:
        if not folder.is_dir():
            with suppress(FileNotFoundError):
                folder.lstat()  # unlike Path.exists, refuses a name that no disk can hold, or one below a file
                raise TrothError(f"{folder} is not a folder; choose another --out")
        above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        with tempfile.TemporaryFile(dir=above):
            pass
    except (OSError, ValueError) as error:
        raise _cannot_write(folder, error) from None
    return folder


@contextmanager
def held(folder: Path, marker: str) -> Iterator[None]:
    """Makes the folder ours and keeps every other process out of it.

    Where the work is refused before it has written anything, the folder is left as it was.
    """
    is_new = not folder.is_dir()
    claim(folder, marker)
    try:
        with locks.held(folder):
            yield
    except TrothError:
        if [*folder.iterdir()] == [claim_file(folder, marker)]:
            settle(folder, marker)
            if is_new:
                folder.rmdir()
        raise


def claim(folder: Path, marker: str) -> None:
    """Makes the folder ours before the first file is written to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / marker).is_file():
            claim_file(folder, marker).touch()
    except OSError as error:
        raise _cannot_write(folder, error) from None


def settle(folder: Path, marker: str) -> None:
    """Drops the claim of a folder whose marker is written."""
    claim_file(folder, marker).unlink(missing_ok=True)


def claim_file(folder: Path, marker: str) -> Path:
    """What a folder holds while its marker is not written yet."""
    return folder / f".{marker}.claim"


def _cannot_write(folder: Path, error: OSError | ValueError) -> TrothError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return TrothError(f"cannot write to {folder} ({reason}); choose another --out")
