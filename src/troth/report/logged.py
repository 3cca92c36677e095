"""What a bench passes to an experiment tracker: parameters, numbers, tables and files.

A tracker is one file, `log_to_NAME.py`, with a function of that name that takes a bench or a leaderboard.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import troth
from troth.core.sheet import Sheet
from troth.report import exhibits, run_page
from troth.report.board import Leaderboard
from troth.report.wording import short_names
from troth.store.store import Store

if TYPE_CHECKING:
    from troth.sweep.bench import Bench

TRACKERS = ("mlflow", "wandb")
_LONGEST = 250  # maximum length of a parameter or a name that every tracker accepts


@dataclass(frozen=True, eq=False)
class Logged:
    """One leaderboard in the form that trackers accept."""

    name: str
    parameters: Mapping[str, str]
    numbers: Mapping[str, float]  # METRIC/EXPLAINER, and the bounds of its 95 % interval as …/low and …/high
    tables: Mapping[str, Sheet]
    folder: Path  # contains report.html, and every table and figure as files


@contextmanager
def logged(bench: Bench | Leaderboard) -> Iterator[Logged]:
    """Yields everything to log; the files are deleted afterwards."""
    board = bench if isinstance(bench, Leaderboard) else bench.leaderboard
    shown = list(exhibits.board_exhibits(board))
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        exhibits.write(folder / "tables", shown)
        if board.folder is not None:
            run_page.write_report(Store(board.folder), folder / "report.html", [board])
        yield Logged(
            f"{board.model} on {board.data}", _parameters(board), _numbers(board),
            {name: sheet for name, sheet, _ in shown}, folder,
        )  # fmt: skip


def _parameters(board: Leaderboard) -> dict[str, str]:
    facts: dict[str, Any] = {
        "model": board.model, "data": board.data, "examples": board.examples,
        "clusters": board.clusters or board.examples, "explainers": ", ".join(board.explainers),
        "metrics": ", ".join(board.metrics), "seeds": board.seeds, "troth": troth.__version__, **board.options,
    }  # fmt: skip
    return {
        name: text if len(text := str(value)) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
        for name, value in facts.items()
    }


def _numbers(board: Leaderboard) -> dict[str, float]:
    explainers, metrics = short_names(board.explainers), short_names(board.metrics)
    numbers: dict[str, float] = {}
    for (explainer, metric), summary in board.summaries.items():
        name = f"{_plain(metrics[metric])}/{_plain(explainers[explainer])}"
        ends = {name: summary.value, f"{name}/low": summary.low, f"{name}/high": summary.high}
        numbers |= {key: float(value) for key, value in ends.items() if math.isfinite(value)}
    return numbers


def _plain(name: str) -> str:
    """A name with only the characters that every tracker accepts.

    >>> _plain("gradient(norm='l1')"), _plain("soft(samples=3, at='word')")
    ('gradient norm_l1', 'soft samples_3 at_word')
    """
    words = re.sub(r"[^\w.=,( -]", "", name).replace("=", "_").replace("(", " ").replace(",", "")
    return words[: _LONGEST // 3].strip()
