"""A leaderboard in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from troth.report.board import CHECK, RANDOM, Leaderboard
from troth.report.verdict import joined
from troth.store.records import own_methods

_WIDE = 2.0  # an interval of a number that should lie in [0, 1]: it was divided by nearly nothing


def answer(board: Leaderboard) -> list[str]:
    """What was found, and the paragraph on methods."""
    return [*findings(board), methods(board)]


def findings(board: Leaderboard) -> list[str]:
    """The verdict, what does not decide, which metrics to doubt, what is missing."""
    verdict = board.verdict
    lines = list(verdict.sentences) if verdict is not None else []
    lines += [*_clusters(board), *_blunt(board), *_unbounded(board), *_plausible(board), *_validity(board)]
    if board.truncated:
        cut = f"{board.truncated} of {board.examples}"
        lines.append(
            f"{cut} texts are longer than the model reads; their ends were cut off. To read all of them: "
            "--model-option windows=true"
        )
    return [*lines, *pairs(board), *_failed(board), *_seeds(board)]


def _clusters(board: Leaderboard) -> list[str]:
    """What was counted, where it is not every example."""
    if board.clusters is None:
        return []
    which = "examples of one group, and equal or nearly equal texts," if board.clustering.has_groups else (
        "equal or nearly equal texts"
    )  # fmt: skip
    count = "1 cluster" if board.clusters == 1 else f"{board.clusters} clusters"
    return [
        f"The {board.examples} examples are {count}: {which} count as one, by the mean of their scores, in every "
        "number, interval and test here."
    ]


def _validity(board: Leaderboard) -> list[str]:
    """Whether erased inputs are of the kind the model was trained on, where that was tested, by what the test said."""
    by_verdict: dict[str, list[str]] = {}
    for metric, stamp in board.stamps.items():
        by_verdict.setdefault(stamp.verdict, []).append(metric)
    lines = []
    if inside := by_verdict.get("no evidence against"):
        lines.append(
            f"No evidence against ({_lowest(board, inside)}) that the erased inputs of {joined(inside)} are of the "
            "kind the model was trained on."
        )
    if outside := by_verdict.get("out of distribution"):
        whole = next((stamp.whole for stamp in map(board.stamps.get, outside) if stamp and stamp.whole_outside), None)
        advice = (
            "fine-tune the model with: troth train masked"
            if whole is None
            else f"whole texts already are (p = {whole:.2g}), so masking is not to blame: measure on texts like those "
            "the model was trained on"
        )
        lines.append(
            f"Warning: erased inputs are out of distribution for {board.model} ({_lowest(board, outside)}), so "
            f"{joined(outside)} may measure that instead of faithfulness; {advice}"
        )
    return lines


def _lowest(board: Leaderboard, metrics: Sequence[str]) -> str:
    """The lowest p-value of some metrics, and how low it could have been."""
    stamp = min((board.stamps[metric] for metric in metrics), key=lambda stamp: stamp.p or 0.0)
    least = "" if stamp.smallest is None else f"; it could have been as small as {stamp.smallest:.2g}"
    return f"p = {stamp.p:.2g}{least}"


def _blunt(board: Leaderboard) -> list[str]:
    """Metrics that decide, though nothing beats random on them, while it does on others."""
    told = {metric for (_, metric), better in board.beats_random.items() if better}
    blunt = [metric for metric in board.deciding if metric not in told]
    if not blunt or not told & set(board.deciding):
        return []
    return [f"Nothing is better than random on {joined(blunt)}: what decides here are the other metrics."]


def _unbounded(board: Leaderboard) -> list[str]:
    """Ratios whose numbers rest on a few texts."""
    lines = []
    for metric, divisor in board.relative_to.items():
        wild = {name: some for name, some in board.of_metric(metric).items() if some.high - some.low > _WIDE}
        decided = "; what decides are the examples' own areas" if metric in board.deciding else ""
        if wild:
            name, widest = max(wild.items(), key=lambda item: item[1].high - item[1].low)
            lines.append(
                f"{metric} is relative to {divisor}, which is near 0 here: {name} has [{widest.low:.2g}, "
                f"{widest.high:.3g}]. Do not compare its numbers{decided}."
            )
    return lines


def _plausible(board: Leaderboard) -> list[str]:
    """Agreement with humans, which says nothing of the model."""
    lines = []
    for metric in board.plausible:
        ordered = board.sorted_by(metric)
        numbers = [f"{name} {board.summaries[name, metric].value:.3f}" for name in ordered
                   if name in (ordered[0], RANDOM) and (name, metric) in board.summaries]  # fmt: skip
        lines.append(
            f"{metric} is plausibility (agreement with humans), not faithfulness, and has no part in the ranking: "
            f"{', '.join(numbers)}."
        )
    return lines


def pairs(board: Leaderboard) -> list[str]:
    """Every method of the user's against the best other one: "mine − leave_one_out: +0.002 […], p = 0.7"."""
    if board.analysis is None:
        return []
    lines = []
    for name in own_methods(board.about):
        other = next((other for other in board.explainers if other not in (name, RANDOM)), RANDOM)
        if compared := board.analysis.between(name, other):
            lines.append(f"{name} − {other}: {'; '.join(comparison.numbers for comparison in compared)}.")
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
        f"{board.counts} and leave that out."
    ]


def methods(board: Leaderboard) -> str:
    """How it was measured, in one sentence to cite."""
    import troth

    averaged = f"scores averaged over {board.seeds} seeds per example, " if board.seeds > 1 else ""
    together = f" on the metrics that decide ({', '.join(board.deciding)})" if board.deciding else ""
    return (
        f"Methods: {len(board.explainers)} explainers were measured with {', '.join(board.metrics)} on "
        f"{board.counted} of {board.data} with {board.model}; {averaged}95 % BCa bootstrap intervals over "
        f"{board.counts}, paired t-tests of mean differences with Holm's correction over all pairs{together} "
        f"(troth {troth.__version__})."
    )
