"""Every method of the user's against the best other one, by example: "mine − leave_one_out: +0.002 […], p = 0.7"."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from troth import statistics
from troth.report.board import RANDOM, Leaderboard
from troth.store.current import own_methods


def pairs(board: Leaderboard) -> list[str]:
    """A sentence per method of the user's; the p-values are those behind the letters."""
    lines = []
    for name in own_methods(board.about):
        others = [other for other in board.explainers if other not in (name, RANDOM)] or [RANDOM]
        if name in board.explainers and others[0] in board.explainers:
            compared = filter(None, (_compared(board, name, others[0], metric) for metric in board.metrics))
            if numbers := "; ".join(compared):
                lines.append(f"{name} − {others[0]}: {numbers}.")
    return lines


def _compared(board: Leaderboard, first: str, second: str, metric: str) -> str:
    if board.directions[metric] is None or not {(first, metric), (second, metric)} <= board.values.keys():
        return ""
    measured = [name for name in board.explainers if (name, metric) in board.values]
    every = list(combinations(measured, 2))
    p_values = [statistics.paired_test(board.values[a, metric], board.values[b, metric])[1] for a, b in every]
    adjusted = dict(zip(map(frozenset, every), statistics.holm(p_values), strict=True))
    differences = board.values[first, metric] - board.values[second, metric]
    low, high = statistics.bca_interval(differences)
    numbers = f"{statistics.mean(differences):+.3f} [{low:.3f}, {high:.3f}]".replace("-", "−")
    p = adjusted[frozenset((first, second))]
    return "" if np.isnan(p) else f"{numbers} in {metric}, p = {p:.2g}"
