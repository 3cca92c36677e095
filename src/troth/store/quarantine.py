"""Moves what does not belong into `damaged/`, so that nothing a crash or a stranger left can block a run."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

PLACES = ("damaged", "cells", "segments", "failed", "files", "claims")


def set_aside(folder: Path, path: Path) -> bool:
    """Moves one thing of a run's folder into `damaged/`; False where another process was faster."""
    (folder / "damaged").mkdir(parents=True, exist_ok=True)
    return _moved(path, folder / "damaged" / path.name)


def clear(folder: Path) -> Iterator[str]:
    """Makes room for a run: its places are folders, or links to some, and hold nothing but files."""
    for name in PLACES:
        place = folder / name
        if not place.is_dir() and _is_there(place):
            what = _what(place)
            # Where `damaged` itself is in the way, there is no folder yet to move it to.
            aside = folder / f".{name}" if name == "damaged" else folder / "damaged" / name
            aside.parent.mkdir(exist_ok=True)
            if _moved(place, aside):
                yield f"{place} is {what}, not a folder: set aside"
    for name in ("cells", "segments", "failed"):
        for path in (folder / name).glob("[!.]*"):
            if not path.is_file() and _is_there(path):
                what = _what(path)
                if set_aside(folder, path):
                    yield f"{path} is {what}, not a file: set aside, what it should hold is computed again"


def _moved(path: Path, to: Path) -> bool:
    names = (f"{to.name}.{number}" if number else to.name for number in count())
    try:
        path.rename(next(free for name in names if not _is_there(free := to.with_name(name))))
    except FileNotFoundError:
        return False
    return True


def _is_there(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _what(path: Path) -> str:
    if not path.exists():
        return "a link to nowhere"
    return "a folder" if path.is_dir() else "a file" if path.is_file() else "no plain file"
