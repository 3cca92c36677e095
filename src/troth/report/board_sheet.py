"""A leaderboard as the table that every format shows, and its values as plain data for JSON, csv and SQL."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from troth.core.sheet import Column, Sheet, TableCell, plain
from troth.report import figures
from troth.report.board import RANDOM, Leaderboard
from troth.report.wording import options_note, short_names

NOTES = (
    "Best of each column in bold.",
    "Brackets: 95 % intervals over {counts}.",
    "Explainers that share a letter do not differ significantly on that metric (paired t-tests, Holm's correction).",
    "An arrow points to the better side.",
)


def sheet(board: Leaderboard, order: Sequence[str] | None = None) -> Sheet:
    """One row per explainer and one column per metric, then the cost of an explanation."""
    names = short_names(board.metrics)
    measured = [Column(names[metric], board.directions[metric]) for metric in board.metrics]
    rows = [
        [
            TableCell(explainer),
            *(cell_of(board, explainer, metric) for metric in board.metrics),
            TableCell(round(1000 * board.seconds[explainer])),
            TableCell(round(board.passes[explainer])),
        ]
        for explainer in order or board.explainers
    ]
    return Sheet(
        title=board.title,
        columns=[Column("explainer", number=False), *measured, Column("ms"), Column("passes")],
        rows=rows,
        records=records([board]),
        fields=LEADERBOARD.names,
        notes=[
            *(note.format(counts=board.counts) for note in NOTES),
            *([f"Scores are averaged over up to {board.seeds} seeds per example."] if board.seeds > 1 else []),
            "ms and passes are per example.",
            *options_note(board.metrics),
        ],
        draw=lambda figure: figures.draw_board(figure, board.title, measured, rows),
    )


def cell_of(board: Leaderboard, explainer: str, metric: str) -> TableCell:
    """One value of a leaderboard with its interval, letters and marks."""
    summary = board.summaries.get((explainer, metric))
    if summary is None or math.isnan(summary.value):
        return TableCell(None)
    return TableCell(
        float(summary.value),
        float(summary.low),
        float(summary.high),
        board.groups.get(metric, {}).get(explainer, ""),
        # Two values that are displayed alike are both best.
        TableCell(float(summary.value)).text == TableCell(_best(board, metric)).text,
        explainer != RANDOM and board.beats_random.get((explainer, metric)) is False,
    )


def _best(board: Leaderboard, metric: str) -> float:
    """The best value of a column; NaN if neither direction is better."""
    defined = [summary.value for summary in board.of_metric(metric).values() if not math.isnan(summary.value)]
    if not defined or board.directions[metric] is None:
        return math.nan
    return max(defined) if board.directions[metric] else min(defined)


LEADERBOARD = pa.schema(
    {
        "model": pa.string(),
        "data": pa.string(),
        "setting": pa.string(),  # units, target and other options that are not the default
        "place": pa.int32(),  # rank of the explainer over all metrics
        "explainer": pa.string(),
        "metric": pa.string(),
        "higher_is_better": pa.bool_(),
        "value": pa.float64(),  # each example averaged over seeds, then summarized as the metric defines
        "low": pa.float64(),  # 95 % interval over examples, or over clusters of them
        "high": pa.float64(),
        "letters": pa.string(),  # rows that share a letter do not differ significantly
        "beats_random": pa.bool_(),
        "examples": pa.int64(),  # number of examples behind the value; a cluster of them counts as one
        "undefined": pa.int64(),
        "seeds": pa.int32(),
        "seed_spread": pa.float64(),  # standard deviation of the values of single seeds
        "ms": pa.float64(),  # milliseconds per example
        "passes": pa.float64(),  # forward and backward rows per example
    }
)


def as_dict(board: Leaderboard, order: Sequence[str] | None = None) -> dict[str, Any]:
    """Plain data for JSON; undefined values are None."""
    rows = []
    for explainer in order or board.explainers:
        row: dict[str, Any] = {
            "explainer": explainer, "seconds": board.seconds[explainer], "passes": board.passes[explainer],
        }  # fmt: skip
        for metric in board.metrics:
            if (explainer, metric) in board.summaries:
                row[metric] = measurement(board, explainer, metric) | {
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
    """One record per explainer and metric of all boards, with the values that are shown."""
    return [
        {
            "model": board.model, "data": board.data, "setting": board.setting, "place": place, "explainer": explainer,
            "metric": metric, "higher_is_better": board.directions[metric], **measurement(board, explainer, metric),
            "ms": 1000 * board.seconds[explainer], "passes": board.passes[explainer],
        }
        for board in boards
        for place, explainer in enumerate(board.explainers, start=1)
        for metric in board.metrics
        if (explainer, metric) in board.summaries
    ]  # fmt: skip


def measurement(board: Leaderboard, explainer: str, metric: str) -> dict[str, Any]:
    """One value of a leaderboard, unrounded, with its interval, letters and counts."""
    summary = board.summaries[explainer, metric]
    return {
        "value": plain(summary.value),
        "low": plain(summary.low),
        "high": plain(summary.high),
        "letters": board.groups.get(metric, {}).get(explainer, ""),
        "beats_random": board.beats_random.get((explainer, metric)),
        "examples": summary.count,
        "undefined": sum(summary.undefined.values()),
        "seeds": summary.seeds,
        "seed_spread": plain(summary.spread),
    }
