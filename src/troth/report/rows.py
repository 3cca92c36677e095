"""The numbers of a leaderboard as plain data: for JSON, csv and data frames, and as a table for SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from troth.report.board import Leaderboard

LEADERBOARD = pa.schema(
    {
        "model": pa.string(),
        "data": pa.string(),
        "setting": pa.string(),  # units, target and the like, where not the default
        "place": pa.int32(),  # of the explainer, over all metrics
        "explainer": pa.string(),
        "metric": pa.string(),
        "higher_is_better": pa.bool_(),
        "value": pa.float64(),  # each example averaged over seeds, then summed up as the metric says
        "low": pa.float64(),  # 95 % interval over examples, or clusters of them
        "high": pa.float64(),
        "letters": pa.string(),  # a shared letter: no significant difference
        "beats_random": pa.bool_(),
        "examples": pa.int64(),  # that the number rests on; a cluster of them counts as one
        "undefined": pa.int64(),
        "seeds": pa.int32(),
        "seed_spread": pa.float64(),  # standard deviation of the seeds' own numbers
        "ms": pa.float64(),  # per example
        "passes": pa.float64(),  # forward and backward rows per example
    }
)


def as_dict(board: Leaderboard, order: Sequence[str] | None = None) -> dict[str, Any]:
    """Ready for JSON; what is undefined is None."""
    rows = []
    for explainer in order or board.explainers:
        row: dict[str, Any] = {
            "explainer": explainer, "seconds": board.seconds[explainer], "passes": board.passes[explainer],
        }  # fmt: skip
        for metric in board.metrics:
            if (explainer, metric) in board.summaries:
                row[metric] = _shown(board, explainer, metric) | {
                    "undefined": dict(board.summaries[explainer, metric].undefined)
                }
                row[metric]["group"] = row[metric].pop("letters")
                row[metric]["validity"] = str(board.stamps.get(metric, "not tested"))
        rows.append(row)
    validity = {
        metric: {"verdict": stamp.verdict, "p": stamp.p, "smallest_p": stamp.smallest, "why": stamp.why}
        for metric, stamp in board.stamps.items()
    }
    return {
        "model": board.model, "data": board.data, "examples": board.examples,
        "clusters": board.clusters or board.examples, "rows": rows, "answer": board.answer(),
        "failures": dict(board.failures), "skipped": dict(board.skipped), "validity": validity,
    }  # fmt: skip


def as_table(boards: Iterable[Leaderboard]) -> pa.Table:
    """The records as a table, for SQL."""
    return pa.Table.from_pylist(records(boards), schema=LEADERBOARD)


def records(boards: Iterable[Leaderboard]) -> list[dict[str, Any]]:
    """All boards, one row per explainer and metric; the numbers are those that are shown."""
    return [
        {
            "model": board.model, "data": board.data, "setting": board.setting, "place": place, "explainer": explainer,
            "metric": metric, "higher_is_better": board.directions[metric], **_shown(board, explainer, metric),
            "ms": 1000 * board.seconds[explainer], "passes": board.passes[explainer],
        }
        for board in boards
        for place, explainer in enumerate(board.explainers, start=1)
        for metric in board.metrics
        if (explainer, metric) in board.summaries
    ]  # fmt: skip


def _shown(board: Leaderboard, explainer: str, metric: str) -> dict[str, Any]:
    summary = board.summaries[explainer, metric]
    return {
        "value": _number(summary.value),
        "low": _number(summary.low),
        "high": _number(summary.high),
        "letters": board.groups.get(metric, {}).get(explainer, ""),
        "beats_random": board.beats_random.get((explainer, metric)),
        "examples": summary.count,
        "undefined": sum(summary.undefined.values()),
        "seeds": summary.seeds,
        "seed_spread": _number(summary.spread),
    }


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
