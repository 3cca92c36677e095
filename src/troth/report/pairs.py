"""Every method of the user's against the best other one, by example: "mine − leave_one_out: +0.002 […], p = 0.7"."""

from __future__ import annotations

from troth.report.board import RANDOM, Leaderboard
from troth.store.records import own_methods


def pairs(board: Leaderboard) -> list[str]:
    """A sentence per method of the user's, from the analysis behind letters and verdict."""
    if board.analysis is None:
        return []
    lines = []
    for name in own_methods(board.about):
        other = next((other for other in board.explainers if other not in (name, RANDOM)), RANDOM)
        if compared := board.analysis.between(name, other):
            lines.append(f"{name} − {other}: {'; '.join(comparison.numbers for comparison in compared)}.")
    return lines
