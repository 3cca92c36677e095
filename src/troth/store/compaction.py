"""Joins finished cells into larger files, and sets aside files that are damaged or do not belong in a run.

A crash at any moment loses nothing: a joined file is complete before the files it was made from are removed. Files that
are set aside move into `damaged/`, so that nothing left by a crash or by another program can block a run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pyarrow as pa

from troth.core.files import remove_abandoned, write_aside
from troth.store.records import DamagedError
from troth.store.segments import Facts, Segment, pack, seal_of

MAX_CELLS = 1_000  # in a joined file
MAX_BYTES = 64 << 20
PLACES = ("damaged", "cells", "segments", "failed", "files", "claims")


def compact(folder: Path, segments: Iterable[Segment]) -> None:
    """Joins small files, one kind of cell at a time."""
    for place in ("cells", "segments", "failed", "claims"):
        remove_abandoned(folder / place)
    groups: dict[str, list[Segment]] = {}
    for segment in segments:
        if len(segment.facts) < MAX_CELLS // 2 and segment.path.stat().st_size < MAX_BYTES // 2:
            groups.setdefault(f"{segment.kind} {segment.columns}", []).append(segment)
    for group in groups.values():
        for batch in _batches(group):
            _join(folder, batch)


def _batches(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    batch: list[Segment] = []
    cells = size = 0
    for segment in segments:
        cells += len(segment.facts)
        size += segment.path.stat().st_size
        if batch and (cells > MAX_CELLS or size > MAX_BYTES):
            yield batch
            batch, cells, size = [], len(segment.facts), segment.path.stat().st_size
        batch.append(segment)
    if batch:
        yield batch


def _join(folder: Path, batch: Sequence[Segment]) -> None:
    if len(batch) == 1 and batch[0].path.parent.name == "segments":
        return
    joined: dict[str, tuple[Facts, pa.Table]] = {}
    whole = []
    for segment in batch:
        try:
            rows = segment.all_rows().drop_columns(["cell"])
        except DamagedError:
            continue  # the next check reports it
        whole.append(segment)
        start = 0
        for facts in segment.facts:
            joined.setdefault(facts["name"], (facts, rows.slice(start, facts["rows"])))
            start += facts["rows"]
    if not joined:
        return
    path = write_segment(folder, list(joined.values()))
    for segment in whole:
        if segment.path != path:
            segment.path.unlink(missing_ok=True)


def write_segment(folder: Path, cells: Sequence[tuple[Facts, pa.Table]]) -> Path:
    """Writes one file with many cells; its name is a hash of its content."""
    data = pack([facts for facts, _ in cells], [table for _, table in cells])
    path = folder / "segments" / f"{cells[0][0]['kind']}-{seal_of(data)}.parquet"
    write_aside(path, data)
    return path


def check(folder: Path, segments: Sequence[Segment], unreadable: Mapping[Path, str]) -> list[str]:
    """Reads every file completely; moves damaged ones into `damaged/` and keeps the sound cells in them."""
    damages = [DamagedError(path, why) for path, why in unreadable.items()] + found_damages(segments)
    named = []
    by_path = {segment.path: segment for segment in segments}
    for damage in damages:
        segment = by_path.get(damage.path)
        sound = segment.sound() if segment is not None and len(segment.facts) > 1 else []
        lost = 1 if segment is None else len(segment.facts) - len(sound)
        if sound:
            write_segment(folder, sound)
        if not set_aside(folder, damage.path):
            continue  # moved by another process
        kept = f", {len(sound)} of its cells are sound and kept" if sound else ""
        again = "what it held is" if segment is None else f"{lost} cell{'s are' if lost != 1 else ' is'}"
        named.append(f"{damage.path} is damaged ({damage.why}): set aside{kept}, {again} computed again")
    return named


def found_damages(segments: Sequence[Segment], *, named: bool = True) -> list[DamagedError]:
    """The damage found by reading every file completely; nothing is moved."""
    with ThreadPoolExecutor() as pool:  # hashing and decompressing release the GIL
        found = pool.map(lambda segment: _damage(segment, named), segments)
        return [damage for damage in found if damage is not None]


def _damage(segment: Segment, named: bool) -> DamagedError | None:
    try:
        segment.verify(named=named)
    except DamagedError as damage:
        return damage
    except FileNotFoundError:
        return None  # compacted by another process in the meantime
    return None


def set_aside(folder: Path, path: Path) -> bool:
    """Moves an entry of a run's folder into `damaged/`; False if another process was faster."""
    (folder / "damaged").mkdir(parents=True, exist_ok=True)
    return _moved(path, folder / "damaged" / path.name)


def clear(folder: Path) -> Iterator[str]:
    """Moves away whatever blocks a run: its subfolders must be folders or links to folders, and contain only files."""
    for name in PLACES:
        place = folder / name
        if not place.is_dir() and _is_there(place):
            what = _what(place)
            # If `damaged` itself is in the way, there is no folder yet to move it to.
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
