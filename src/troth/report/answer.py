"""A leaderboard in words."""

from __future__ import annotations

import numpy as np

from troth.report.board import CHECK, RANDOM, Leaderboard
from troth.report.pairs import pairs


def answer(board: Leaderboard) -> list[str]:
    """What to use, what is no better than random, which metrics to doubt, what is missing, how to cite."""
    lines = []
    directed = [metric for metric in board.metrics if board.directions[metric] is not None]
    real = [name for name in board.explainers if name != RANDOM]
    if real and directed:
        best = real[0]
        won = [metric for metric in directed if "a" in board.groups.get(metric, {}).get(best, "")]
        lines.append(
            f"Use {best}: best on average, and nothing is significantly better on {len(won)} of {len(directed)} "
            "metrics."
        )
    useless = [name for name in real if not any(board.beats_random.get((name, metric)) for metric in directed)]
    if useless and board.beats_random:
        lines.append(f"No better than random on any metric here: {', '.join(useless)}.")
    if board.meta is not None:
        blunt = [judged.metric for judged in board.meta.diagnosticities if judged.advantage[1] <= 0]
        if blunt:
            lines.append(f"These metrics do not tell real explanations from random ones here: {', '.join(blunt)}.")
    outside = [metric for metric, stamp in board.stamps.items() if stamp.verdict == "out of distribution"]
    if outside:
        stamp = board.stamps[outside[0]]
        advice = (
            f"whole texts already are (p = {stamp.whole:.2g}), so masking is not to blame: measure on texts like those "
            "the model was trained on"
            if stamp.whole_outside
            else "fine-tune the model with: troth train masked"
        )
        lines.append(
            f"Warning: masked inputs are out of distribution for {board.model} (p = {stamp.p:.2g}), so "
            f"{', '.join(outside)} may measure that instead of faithfulness; {advice}"
        )
    if board.truncated:
        cut = f"{board.truncated} of {board.examples}"
        lines.append(f"{cut} texts are longer than the model reads; their ends were cut off.")
    if board.repeated:
        lines.append(
            f"{board.repeated} of {board.examples} examples repeat the text of another one and count as examples of "
            "their own, so intervals and tests here are too sure: remove them."
        )
    lines += [*pairs(board), *_failed(board), *_seeds(board), _methods(board)]
    return lines


def _failed(board: Leaderboard) -> list[str]:
    """What is missing from the table because it failed, a sentence per reason."""
    by_reason: dict[tuple[bool, str], list[str]] = {}
    for what, why in board.failures.items():
        partly = " × " in what or what in (CHECK, *board.explainers)
        by_reason.setdefault((partly, why.strip()), []).append(what)
    lines = []
    for (partly, why), failed in sorted(by_reason.items(), key=lambda item: item[0][0]):
        missing = "missing here, or resting on fewer seeds" if partly else "not ranked here"
        lines.append(f"Failed, so {missing}: {', '.join(failed)}. The reason: {why}")
    if lines:
        lines.append("Fix what failed, then run the same command with --retry.")
    return lines


def _seeds(board: Leaderboard) -> list[str]:
    """How much the seeds differ among themselves: no part of the intervals."""
    spreads = {key: summary.spread for key, summary in board.summaries.items() if not np.isnan(summary.spread)}
    if not spreads:
        return []
    (explainer, metric), largest = max(spreads.items(), key=lambda item: item[1])
    return [
        f"Every example's score is its mean over up to {board.seeds} seeds. From seed to seed a number here varies by "
        f"a standard deviation of at most {largest:.2g} ({explainer} × {metric}); intervals and tests are over "
        "examples and leave that out."
    ]


def _methods(board: Leaderboard) -> str:
    import troth

    averaged = f"scores averaged over {board.seeds} seeds per example, " if board.seeds > 1 else ""
    return (
        f"Methods: {len(board.explainers)} explainers were measured with {', '.join(board.metrics)} on "
        f"{board.examples} examples of {board.data} with {board.model}; {averaged}95 % BCa bootstrap intervals over "
        f"examples, Wilcoxon signed-rank tests with Holm's correction (troth {troth.__version__})."
    )
