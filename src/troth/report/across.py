"""Tables over several leaderboards, of one sweep or of several runs: explainers as rows, models and data sets as
columns; first the mean ranks, then the values of each metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from troth.core.sheet import Column, Sheet, TableCell
from troth.models import short_name
from troth.report import figures
from troth.report.board import Leaderboard, mean_rank
from troth.report.board_sheet import cell_of, measurement
from troth.report.wording import short_names

FIELDS = ("explainer", "model", "data", "setting", "place")
_VALUES = ("explainer", "model", "data", "setting", "metric", "value", "low", "high")
_SOME_MISSING = (
    "A rank is among the explainers of its column. Means over fewer columns cannot be compared with the others and are "
    "never in bold."
)


def tables(boards: Sequence[Leaderboard]) -> list[Sheet]:
    """The mean ranks and the values of each metric; nothing for a single leaderboard."""
    if len(boards) < 2:
        return []
    metrics = dict.fromkeys(metric for board in boards for metric in board.metrics)
    return [across(boards), *(_values(boards, metric, short) for metric, short in short_names([*metrics]).items())]


def across(boards: Sequence[Leaderboard]) -> Sheet:
    """The mean rank of each explainer over the deciding metrics, for each board and over all boards.

    Ranks are missing where the explainer was not measured; the mean is over the others.
    """
    names = _ranked(boards)
    places = {name: [_place(board, name) for board in boards] for name in names}
    table = np.array([[*places[name], _mean(places[name])] for name in names], np.float64).reshape(len(names), -1)
    everywhere = np.isfinite(table[:, :-1]).all(1)  # only means over the same columns are compared
    comparable = np.column_stack([table[:, :-1], np.where(everywhere, table[:, -1], np.nan)])
    best = [np.nanmin(column) if np.isfinite(column).any() else np.nan for column in comparable.T]
    heads = [*_heads(boards), "mean"]
    ranks = [[TableCell(float(value), best=bool(own == least))
              for value, own, least in zip(row, some, best, strict=True)]
             for row, some in zip(table, comparable, strict=True)]  # fmt: skip
    rows = [[TableCell(name), *row] for name, row in zip(names, ranks, strict=True)]
    return Sheet(
        title=f"Mean ranks of {len(names)} explainers on {_pairs(boards)}",
        columns=[Column("explainer", number=False), *(Column(head, False) for head in heads)],
        rows=rows,
        records=[
            dict(zip(FIELDS, (name, *_about(board), _plain(place)), strict=True))
            for name in names
            for board, place in zip(boards, places[name], strict=True)
        ],
        fields=FIELDS,
        notes=[
            "1 is the best rank; each is the mean over the metrics that decide.",
            "Best of each column in bold.",
            *([] if everywhere.all() else [_SOME_MISSING]),
        ],
        draw=partial(figures.draw_dots, groups=_by_head(heads, rows)),
    )


def _values(boards: Sequence[Leaderboard], metric: str, short: str) -> Sheet:
    """The values of one metric with their intervals, for each board that has it."""
    having = [board for board in boards if metric in board.metrics]
    names = [name for name in _ranked(boards) if any((name, metric) in board.summaries for board in having)]
    rows = [[TableCell(name), *(cell_of(board, name, metric) for board in having)] for name in names]
    heads = _heads(having)
    return Sheet(
        title=f"{short} of {len(names)} explainers on {_pairs(having)}",
        columns=[
            Column("explainer", number=False),
            *(Column(head, board.directions[metric]) for head, board in zip(heads, having, strict=True)),
        ],
        rows=rows,
        records=[
            dict(zip(_VALUES, (name, *_about(board), metric, *(known[each] for each in _VALUES[-3:])), strict=True))
            for name in names
            for board in having
            if (name, metric) in board.summaries
            for known in [measurement(board, name, metric)]
        ],
        fields=_VALUES,
        notes=[
            "Best of each column in bold.",
            "Brackets: 95 % intervals; an arrow points to the better side.",
            "Explainers of a column that share a letter do not differ significantly.",
        ],
        draw=partial(figures.draw_dots, groups=_by_head(heads, rows)),
    )


def _ranked(boards: Sequence[Leaderboard]) -> list[str]:
    """All explainers, the one with the best mean rank first."""
    names = dict.fromkeys(name for board in boards for name in board.explainers)
    means = {name: _mean([_place(board, name) for board in boards]) for name in names}
    return sorted(names, key=lambda name: np.inf if np.isnan(means[name]) else means[name])


def _heads(boards: Sequence[Leaderboard]) -> list[str]:
    """For each board the parts of its title that distinguish it, and the folders of runs that share all of these."""
    parts = [(short_name(board.model), board.data, board.setting) for board in boards]
    runs = ["" if board.folder is None else board.folder.name for board in boards]
    if len(set(parts)) < len(parts):
        parts = [(*some, run) for some, run in zip(parts, runs, strict=True)]  # type: ignore[misc]  # one part more
    differing = [len(set(column)) > 1 for column in zip(*parts, strict=True)]
    return [
        " · ".join(part for part, differs in zip(some, differing, strict=True) if differs and part) or some[1]
        for some in parts
    ]


def _by_head(heads: Sequence[str], rows: Sequence[Sequence[TableCell]]) -> dict[str, dict[str, TableCell]]:
    return {head: {row[0].text: row[place] for row in rows} for place, head in enumerate(heads, start=1)}


def _pairs(boards: Sequence[Leaderboard]) -> str:
    return f"{len(boards)} {'pair' if len(boards) == 1 else 'pairs'} of model and data"


def _about(board: Leaderboard) -> tuple[str, str, str]:
    return board.model, board.data, board.setting


def _place(board: Leaderboard, name: str) -> float:
    place = mean_rank(board, name) if name in board.explainers else np.inf
    return place if np.isfinite(place) else np.nan


def _mean(places: Sequence[float]) -> float:
    known = [place for place in places if np.isfinite(place)]
    return float(np.mean(known)) if known else float("nan")


def _plain(place: float) -> float | None:
    return float(place) if np.isfinite(place) else None
