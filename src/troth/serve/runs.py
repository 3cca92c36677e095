"""The runs that the page may open: those in one folder, and the one that was named."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from troth.core.errors import unknown
from troth.report.board import leaderboards
from troth.report.rows import as_dict
from troth.report.tables import report_text
from troth.store.listing import list_runs
from troth.store.store import Store
from troth.studies import stored_exhibits


class Runs:
    """Runs by the names of their folders; nothing else on this machine can be opened."""

    def __init__(self, folder: Path, opened: Path | None = None) -> None:
        self._folder, self._opened = folder, opened

    def listed(self) -> list[dict[str, Any]]:
        """What `troth runs --json` prints, the run that was named first."""
        inside = list_runs(self._folder) if self._folder.is_dir() else []
        if self._opened is None:
            return inside
        here = self._opened.resolve()
        return [*list_runs(self._opened), *(run for run in inside if Path(run["run"]).resolve() != here)]

    def one(self, name: str) -> dict[str, Any]:
        """How far a run is."""
        return list_runs(self._path(name))[0]

    def report(self, name: str) -> list[dict[str, Any]]:
        """What `troth report RUN --format json` prints; of a run that is being written what is there so far."""
        return [as_dict(board) for board in leaderboards(Store(self._path(name)))]

    def page(self, name: str) -> str:
        """The run's report.html, made now, with every example: nobody sends it by mail."""
        path = self._path(name)
        return report_text(Store(path), exhibits=stored_exhibits(path), budget=math.inf, home="/")

    def _path(self, name: str) -> Path:
        paths = {Path(run["run"]).resolve().name: Path(run["run"]) for run in reversed(self.listed())}
        if name not in paths:
            raise unknown("run", name[:200], paths)
        return paths[name]
