"""The results of a run in one folder, which several processes may share, also on a network file system.

run.json    format version, versions, seeds, hardware, fingerprints of models and data, the commands
cells/      fresh results, one Parquet file per cell: existing means finished
segments/   finished cells compacted, many per file
failed/     the errors of failed cells
files/      what a cell produces besides rows, such as a trained model
claims/     which process computes which cell
damaged/    files that differ from what was written
"""

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from troth.core.errors import TrothError, unknown
from troth.core.files import write_aside
from troth.store import compaction, records
from troth.store.cells import FORMAT_VERSION, Cell
from troth.store.claims import Claims
from troth.store.records import DamagedError
from troth.store.records import Stored as Stored  # imported from here by code that reads a store
from troth.store.segments import Facts, Segment, pack


class Store:
    """A run's folder, which is created when something is written."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.claims = Claims(self.folder / "claims")
        self.unreadable: dict[Path, str] = {}  # damaged files found so far, with the reason
        self._fresh: dict[str, Segment | None] = {}  # by cell; None if its footer was not read yet
        self._segments: dict[str, Segment] = {}  # by file name
        self._places: dict[str, tuple[Segment, int]] = {}  # by cell
        self._refuse_foreign()
        self.refresh()

    def _refuse_foreign(self) -> None:
        """Refuses a folder that is not ours; a run's folder with a damaged or missing run.json is still a run."""
        if self.folder.is_symlink() and not self.folder.exists():
            raise TrothError(f"{self.folder} is a broken link; a run needs a folder")
        if self.folder.exists() and not self.folder.is_dir():
            raise TrothError(f"{self.folder} is a file; a run needs a folder")
        why = "it has no run.json"
        try:
            if self.about() is not None:
                return
        except DamagedError as damage:
            self.unreadable[damage.path] = damage.why
            why = f"its run.json is not troth's ({damage.why})"
        has_results = any((self.folder / name).is_dir() for name in ("cells", "segments"))
        if not has_results and (self.unreadable or any(map(_foreign, self.folder.glob("*")))):
            raise TrothError(f"{self.folder} is not a run: {why}; name a new or empty folder")

    # Reading

    def has(self, name: str) -> bool:
        return name in self._fresh or name in self._places

    def has_now(self, name: str) -> bool:
        """Whether a cell is finished, perhaps by another process since the last refresh."""
        if not self.has(name):
            if self._cell_path(name).exists():
                self._fresh[name] = None
            else:
                self._refresh_segments()
        return self.has(name)

    def names(self) -> set[str]:
        return {*self._fresh, *self._places}

    def table(self, name: str) -> pa.Table:
        for _ in range(3):
            try:
                if name in self._places:
                    segment, position = self._places[name]
                    try:
                        return segment.table(position)
                    except DamagedError:
                        if not self._cell_path(name).exists():  # written again in the meantime
                            raise
                return Segment.open(self._cell_path(name)).table(0)
            except FileNotFoundError:
                self.refresh()  # another process has compacted it in the meantime
        raise TrothError(f"{self.folder} has no finished cell {name}")

    def cells(self) -> list[Stored]:
        return [Stored.of(facts) for segment in self.segments() for facts in self._owned(segment)] + self.failed()

    def failed(self) -> list[Stored]:
        failures = (self.failure(name) for name in self._noted_failures() if not self.has(name))
        return [failure for failure in failures if failure is not None]  # None: another process is trying it again

    def _noted_failures(self) -> list[str]:
        return sorted(path.stem for path in (self.folder / "failed").glob("*.json"))

    def failure(self, name: str) -> Stored | None:
        """The error of a failed cell, perhaps in another process; None if it did not fail or its error cannot be
        read.
        """
        path = self.folder / "failed" / f"{name}.json"
        try:
            failure = Stored.of(records.read(path, records.FailedRecord))
        except OSError:
            return None
        except DamagedError as damage:
            self.unreadable[path] = damage.why
            return None
        if failure.name != name:
            self.unreadable[path] = "it is about another cell than its name says"
            return None
        return failure

    def segments(self) -> list[Segment]:
        """All readable files, including those of single cells."""
        for _ in range(3):
            try:
                for name, segment in list(self._fresh.items()):
                    if segment is None:
                        self._fresh[name] = self._opened(self._cell_path(name))
                        if self._fresh[name] is None:
                            del self._fresh[name]
                break
            except FileNotFoundError:
                self.refresh()
        return [*self._segments.values(), *filter(None, self._fresh.values())]

    def shadowed(self, segment: Segment) -> list[str]:
        """The cells of a file that are also in another one, because a process was killed between compacting and
        removing.
        """
        owned = {facts["name"] for facts in self._owned(segment)}
        return [facts["name"] for facts in segment.facts if facts["name"] not in owned]

    def _owned(self, segment: Segment) -> list[Facts]:
        return [facts for facts in segment.facts if self._places.get(facts["name"], (segment,))[0] is segment]

    def refresh(self) -> None:
        """Reads what other processes have written."""
        # Files of single cells first: a cell that is compacted in between is then found in its segment.
        fresh = {path.stem for path in _parquet(self.folder / "cells")}
        self._refresh_segments()
        self._fresh = {name: self._fresh.get(name) for name in fresh if name not in self._places}

    def _refresh_segments(self) -> None:
        for _ in range(3):
            paths = {path.name: path for path in _parquet(self.folder / "segments") if path not in self.unreadable}
            if paths.keys() == self._segments.keys():
                return
            try:
                opened = {name: self._segments.get(name) or self._opened(path) for name, path in sorted(paths.items())}
            except FileNotFoundError:
                continue  # merged into another file in the meantime
            self._segments = {name: segment for name, segment in opened.items() if segment is not None}
            self._places = {}
            for segment in self._segments.values():
                for position, facts in enumerate(segment.facts):
                    self._places.setdefault(facts["name"], (segment, position))
            return

    def _opened(self, path: Path) -> Segment | None:
        try:
            return Segment.open(path)
        except DamagedError as damage:
            self.unreadable[path] = damage.why
            return None

    # Writing

    def write(self, cell: Cell, table: pa.Table, facts: Mapping[str, Any] | None = None) -> None:
        """Stores a finished cell; `facts` are seconds, forward, backward, host and folders."""
        whole = {**_identity(cell), "rows": table.num_rows, "finished": round(time.time(), 3), **(facts or {})}
        write_aside(self._cell_path(cell.name), pack([whole], [table]), lasting=False)
        self._fresh[cell.name] = None
        if (self.folder / "failed" / f"{cell.name}.json").exists():
            self.forget_failures([cell.name])

    def fail(self, cell: Cell, error: str, traceback: str = "", facts: Mapping[str, Any] | None = None) -> Stored:
        whole = {**_identity(cell), "finished": round(time.time(), 3), **(facts or {})}
        whole |= {"error": error, "traceback": traceback}
        write_aside(self.folder / "failed" / f"{cell.name}.json", json.dumps(whole, ensure_ascii=False).encode())
        return Stored.of(whole)

    def forget_failures(self, names: Iterable[str]) -> None:
        """Deletes the stored errors, so that failed cells are tried again."""
        for name in names:
            (self.folder / "failed" / f"{name}.json").unlink(missing_ok=True)

    def repair(self) -> list[str]:
        """Sets aside whatever blocks a run: entries of the wrong type and damaged JSON."""
        if not self.folder.is_dir():
            return []
        notes = list(compaction.clear(self.folder))
        for name in self._noted_failures():  # also of finished cells, because a later check may find those damaged
            self.failure(name)
        for path in [path for path in self.unreadable if path.suffix == ".json"]:
            why = self.unreadable.pop(path)
            if compaction.set_aside(self.folder, path):
                notes.append(f"{path} is damaged ({why}): set aside, what it held is made again")
        self.refresh()
        return notes

    def check(self) -> list[str]:
        """Reads every file completely; damaged ones are set aside and reported, and their sound cells are kept."""
        notes: list[str] = []
        self.refresh()
        # A damaged file that was moved may have hidden another file with the same cell.
        while found := compaction.check(self.folder, self.segments(), self.unreadable):
            notes += found
            self.unreadable = {}
            self.refresh()
        self.unreadable = {}
        self.refresh()
        return notes

    def damages(self) -> list[DamagedError]:
        """The damaged files, found by reading every file completely; nothing is moved."""
        self.refresh()
        segments = self.segments()
        named = (self.about() or {}).get("format") == FORMAT_VERSION
        return [DamagedError(*each) for each in self.unreadable.items()] + compaction.found_damages(
            segments, named=named
        )

    def compact(self) -> None:
        """Joins finished cells into segments, unless another process is doing so."""
        if not self.claims.take("compaction"):
            return
        try:
            self.refresh()
            compaction.compact(self.folder, self.segments())
            self.refresh()
        finally:
            self.claims.drop("compaction")

    @property
    def fresh(self) -> int:
        """The number of finished cells in files of their own."""
        return len(self._fresh)

    def _cell_path(self, name: str) -> Path:
        return self.folder / "cells" / f"{name}.parquet"

    # The content of run.json

    def about(self) -> dict[str, Any] | None:
        """The content of run.json; None if there is none yet."""
        return records.read_run(self.folder)

    def note(self, **facts: Any) -> None:
        """Adds to run.json: mappings and lists are extended, other values replaced."""
        with self.claims.lock("run.json"):
            try:
                records.add_to_run(self.folder, facts)
            except DamagedError as damage:  # damaged since the run began
                compaction.set_aside(self.folder, damage.path)
                records.add_to_run(self.folder, facts)


def open_run(name: str | Path, runs: str | Path = "runs", *, sound: bool = False) -> Store:
    """Opens an existing run: a folder, or the name of one in `runs`; `sound` refuses a run with damaged files."""
    for folder in (Path(name), Path(runs) / name):
        if (folder / "run.json").is_file():
            store = Store(folder)
            if sound and (damages := store.damages()):
                raise damages[0]
            return store
    nearby = Path(runs) if not Path(name).parent.name else Path(name).parent
    known = sorted(path.parent.name for path in nearby.glob("*/run.json"))
    raise TrothError(f"{unknown('run', str(name), known)} (looked in {nearby})")


def _identity(cell: Cell) -> dict[str, Any]:
    return {"name": cell.name, "kind": cell.kind, "specs": dict(cell.specs), "parents": list(cell.parents)}


def _foreign(path: Path) -> bool:
    """Whether an entry is neither part of a run nor of a study, nor a temporary file of another process."""
    figure = path.suffix in (".png", ".pdf", ".svg") and path.match("[0-9][0-9]-*")
    ours = figure or path.name in {*compaction.PLACES, "run.json", "study.json", "study.md"}
    return not ours and not path.name.startswith(".")


def _parquet(folder: Path) -> list[Path]:
    # A broken link counts as missing: writing replaces it.
    return [path for path in folder.glob("*.parquet") if not path.name.startswith(".") and path.is_file()]
