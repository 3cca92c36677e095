"""The runs that the page may open: those in one folder, and the one named on the command line."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from troth.core.errors import unknown
from troth.core.terminal import visible
from troth.report.board import leaderboards
from troth.report.board_sheet import as_dict
from troth.report.run_page import report_text
from troth.store.runs import list_runs
from troth.store.store import Store
from troth.studies import stored_exhibits


def shown_name(run: Path) -> str:
    """The name of a run's folder in a form that a page and its URL can contain."""
    return visible(run.resolve().name)


class Runs:
    """Runs by the names of their folders; nothing else on this machine can be opened."""

    def __init__(self, folder: Path, opened: Path | None = None) -> None:
        self._folder, self._opened = folder, opened

    def listed(self) -> list[dict[str, Any]]:
        """The output of `troth runs --json`, with the named run first; names that are not UTF-8 are escaped."""
        return [{**run, "run": visible(run["run"]), "problem": visible(run["problem"])} for run in self._runs()]

    def _runs(self) -> list[dict[str, Any]]:
        inside = list_runs(self._folder) if self._folder.is_dir() else []
        if self._opened is None:
            return inside
        here = self._opened.resolve()
        return [*list_runs(self._opened), *(run for run in inside if Path(run["run"]).resolve() != here)]

    def one(self, name: str) -> dict[str, Any]:
        """The progress of a run."""
        run = list_runs(self._path(name))[0]
        return {**run, "run": visible(run["run"])}

    def report(self, name: str) -> list[dict[str, Any]]:
        """The output of `troth report RUN --format json`; for an unfinished run, the results so far."""
        return [as_dict(board) for board in leaderboards(Store(self._path(name)))]

    def page(self, name: str) -> str:
        """The run's report.html, generated on request with all examples, since its size does not matter here."""
        path = self._path(name)
        return report_text(Store(path), exhibits=stored_exhibits(path), budget=math.inf, home="/")

    def _path(self, name: str) -> Path:
        paths = {shown_name(Path(run["run"])): Path(run["run"]) for run in reversed(self._runs())}
        if name not in paths:
            raise unknown("run", name[:200], paths)
        return paths[name]
