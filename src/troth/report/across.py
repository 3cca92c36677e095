"""One table over all leaderboards of a run: explainers as rows, models and data sets as columns, mean ranks in the
cells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from troth.core.sheet import Column, Sheet, TableCell
from troth.models import short_name
from troth.report.board import Leaderboard, mean_rank

FIELDS = ("explainer", "model", "data", "setting", "place")


def across(boards: Sequence[Leaderboard]) -> Sheet:
    """The mean rank of each explainer over the deciding metrics, for each board and over all boards.

    Ranks are missing where the explainer was not measured; the mean is over the others.
    """
    names = list(dict.fromkeys(name for board in boards for name in board.explainers))
    places = {
        name: [mean_rank(board, name) if name in board.explainers else np.inf for board in boards] for name in names
    }
    means = {name: _mean(some) for name, some in places.items()}
    names.sort(key=lambda name: np.inf if np.isnan(means[name]) else means[name])
    table = np.array([[*places[name], means[name]] for name in names], np.float64).reshape(len(names), -1)
    table[~np.isfinite(table)] = np.nan
    best = [np.nanmin(column) if np.isfinite(column).any() else np.nan for column in table.T]
    heads = [Column(_head(board, boards), False) for board in boards]
    return Sheet(
        title=f"Mean places of {len(names)} explainers on {len(boards)} pairs of model and data",
        columns=[Column("explainer", number=False), *heads, Column("mean", False)],
        rows=[
            [
                TableCell(name),
                *(TableCell(float(value), best=bool(value == least)) for value, least in zip(row, best, strict=True)),
            ]
            for name, row in zip(names, table, strict=True)
        ],
        records=[
            dict(zip(FIELDS, (name, board.model, board.data, board.setting, _plain(place)), strict=True))
            for name in names
            for board, place in zip(boards, places[name], strict=True)
        ],
        fields=FIELDS,
        notes=[
            "1 is the best place; each is the mean over the metrics that decide.",
            "Best of each column in bold.",
        ],
    )


def _head(board: Leaderboard, boards: Sequence[Leaderboard]) -> str:
    """The parts of the titles that distinguish the boards."""
    parts = (
        short_name(board.model) if len({each.model for each in boards}) > 1 else "",
        board.data if len({each.data for each in boards}) > 1 else "",
        board.setting if len({each.setting for each in boards}) > 1 else "",
    )
    return " · ".join(filter(None, parts)) or board.data


def _mean(places: Sequence[float]) -> float:
    known = [place for place in places if np.isfinite(place)]
    return float(np.mean(known)) if known else float("nan")


def _plain(place: float) -> float | None:
    return float(place) if np.isfinite(place) else None
