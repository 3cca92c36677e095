"""The output folder of a training. It must be empty or our own, which is checked before any work is done.

A finished folder holds a marker file (train.json). While the training runs, the folder holds a claim instead, a hidden
file named after the marker, so that a killed training recognizes its folder.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from troth.core import locks
from troth.core.errors import TrothError


def own_folder(out: Path, marker: str, is_ours: Callable[[Path], bool] = Path.is_file) -> Path:
    """Returns the folder, unless it holds files that are not ours or cannot be written; changes nothing.

    The folder must be missing, empty, or hold the file `marker`; `is_ours` reads that file where its name proves
    nothing.
    """
    folder = require_writable(out)
    if not folder.is_dir():
        return folder
    first = min((entry.name for entry in os.scandir(folder) if entry.name != locks.NAME), default=None)
    ours = claim_file(folder, marker).is_file() or ((folder / marker).is_file() and is_ours(folder / marker))
    if first is not None and not ours:
        lacking = f"its {marker} is not ours" if (folder / marker).exists() else f"it has no {marker} of ours"
        raise TrothError(
            f"{folder} is not empty (it contains {first}) and {lacking}; nothing was changed: choose another --out"
        )
    locks.require_free(folder)
    return folder


def require_writable(out: Path) -> Path:
    """Checks that files can be written to the folder, by trying it there or in its nearest existing parent."""
    folder = Path(out)
    try:
        if not folder.is_dir():
            with suppress(FileNotFoundError):
                folder.lstat()  # unlike Path.exists, this raises for invalid names and for paths below a file
                raise TrothError(f"{folder} is not a folder; choose another --out")
        above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        with tempfile.TemporaryFile(dir=above):
            pass
    except (OSError, ValueError) as error:
        raise _cannot_write(folder, error) from None
    return folder


@contextmanager
def held(folder: Path, marker: str) -> Iterator[None]:
    """Claims the folder and locks it against other processes.

    If the work is refused before anything was written, the folder is left as it was.
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
    """Claims the folder before the first file is written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / marker).is_file():
            claim_file(folder, marker).touch()
    except OSError as error:
        raise _cannot_write(folder, error) from None


def settle(folder: Path, marker: str) -> None:
    """Removes the claim of a folder whose marker is written."""
    claim_file(folder, marker).unlink(missing_ok=True)


def claim_file(folder: Path, marker: str) -> Path:
    """The file that a folder holds until its marker is written."""
    return folder / f".{marker}.claim"


def _cannot_write(folder: Path, error: OSError | ValueError) -> TrothError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return TrothError(f"cannot write to {folder} ({reason}); choose another --out")
