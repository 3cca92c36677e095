"""A leaderboard in words: the verdict, cautions, how examples were counted, and the paragraph on methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from troth.core import numbers
from troth.report.comparing import RANDOM
from troth.report.wording import fitting, joined, short_names
from troth.store.records import own_methods

if TYPE_CHECKING:
    from troth.report.board import Leaderboard

_ONE_LINE = 80 - len("Beware: .")  # length of a caution in a few words
CHECK = "the check whether masked inputs are in distribution"
_WIDE = 2.0  # width of an interval of a value that should lie in [0, 1], which shows that the divisor is close to 0


@dataclass(frozen=True)
class Caution:
    """A caution for reading a table: in a few words, and in full."""

    brief: str
    full: str


def answer(board: Leaderboard) -> list[str]:
    """The findings and the paragraph on methods."""
    return [*findings(board), methods(board)]


def findings(board: Leaderboard) -> list[str]:
    """The verdict, cautions, how examples were counted, and what is missing."""
    verdict = board.verdict
    return [
        *(verdict.sentences if verdict is not None else ()),
        *_clusters(board),
        *(caution.full for caution in cautions(board)),
        *_sound(board),
        *pairs(board),
        *failed(board),
        *_seeds(board),
    ]


def cautions(board: Leaderboard) -> list[Caution]:
    """Cautions for reading the table, the most serious first."""
    return [*_outside(board), *_truncated(board), *_blunt(board), *_unbounded(board), *_plausible(board)]


def _clusters(board: Leaderboard) -> list[str]:
    """Describes what was counted, if it is not every example."""
    if board.clusters is None:
        return []
    copies = "equal or nearly equal texts"
    which = f"examples of one group, and {copies}," if board.clustering.has_groups else copies
    count = "1 cluster" if board.clusters == 1 else f"{board.clusters} clusters"
    return [
        f"The {board.examples} examples are {count}: {which} count as one, by the mean of their scores, in every "
        "number, interval and test here."
    ]


def _by_verdict(board: Leaderboard, verdict: str) -> tuple[list[str], str]:
    """The metrics whose erased inputs got this verdict, and the lowest p-value with the smallest possible one."""
    names = short_names(board.metrics)
    judged = {metric: stamp for metric, stamp in board.stamps.items() if stamp.verdict == verdict}
    if not judged:
        return [], ""
    stamp = min(judged.values(), key=lambda stamp: stamp.p or 0.0)
    least = "" if stamp.smallest is None else f"; it could have been as small as {stamp.smallest:.2g}"
    return [names[metric] for metric in judged], f"{numbers.p_value(stamp.p or 0.0)}{least}"


def _sound(board: Leaderboard) -> list[str]:
    metrics, lowest = _by_verdict(board, "no evidence against")
    if not metrics:
        return []
    return [
        f"No evidence against ({lowest}) that the erased inputs of {joined(metrics)} are of the kind the model was "
        "trained on."
    ]


def _outside(board: Leaderboard) -> list[Caution]:
    """Cautions about erased inputs that are out of distribution for the model."""
    metrics, lowest = _by_verdict(board, "out of distribution")
    if not metrics:
        return []
    whole = next((stamp.whole for stamp in board.stamps.values() if stamp.p is not None and stamp.whole_outside), None)
    advice = (
        "fine-tune the model with: troth train masked"
        if whole is None
        else f"whole texts already are ({numbers.p_value(whole)}), so masking is not to blame: measure on texts like "
        "those the model was trained on"
    )
    what = "erased inputs" if whole is None else "even whole texts"
    return [
        Caution(
            f"{what} are out of distribution for the model ({lowest.partition(';')[0]})",
            f"Warning: erased inputs are out of distribution for {board.model} ({lowest}), so {joined(metrics)} may "
            f"measure that instead of faithfulness; {advice}",
        )
    ]


def _truncated(board: Leaderboard) -> list[Caution]:
    if not board.truncated:
        return []
    cut, windows = f"{board.truncated} of {board.examples}", "--model-option windows=true"
    return [
        Caution(
            f"{cut} texts were cut off; read all with {windows}",
            f"{cut} texts are longer than the model reads; their ends were cut off. To read all of them: {windows}",
        )
    ]


def _blunt(board: Leaderboard) -> list[Caution]:
    """Cautions about deciding metrics on which nothing beats random, while something does on others."""
    told = {metric for (_, metric), better in board.beats_random.items() if better}
    names = short_names(board.metrics)
    blunt = [names[metric] for metric in board.deciding if metric not in told]
    if not blunt or not told & set(board.deciding):
        return []
    return [
        Caution(
            f"{(words := 'nothing beats random on ')}{fitting(blunt, _ONE_LINE - len(words))}",
            f"Nothing is better than random on {joined(blunt)}: what decides here are the other metrics.",
        )
    ]


def _unbounded(board: Leaderboard) -> list[Caution]:
    """Cautions about ratios whose values depend on a few texts."""
    names, wild, lines = short_names(board.metrics), [], []
    for metric, divisor in board.relative_to.items():
        wide = {name: some for name, some in board.of_metric(metric).items() if some.high - some.low > _WIDE}
        if not wide:
            continue
        decided = "; the verdict compares the areas of the examples instead" if metric in board.deciding else ""
        name, widest = max(wide.items(), key=lambda item: item[1].high - item[1].low)
        wild.append(names[metric])
        lines.append(
            f"{names[metric]} is divided by {divisor}, which is near 0 here: {name} has "
            f"{numbers.interval(widest.low, widest.high)}. Do not compare its values{decided}."
        )
    if not wild:
        return []
    words = f"{'is' if len(wild) == 1 else 'are'} unstable (divisor ≈ 0)"
    return [Caution(f"{fitting(wild, _ONE_LINE - len(words) - 1)} {words}", " ".join(lines))]


def _plausible(board: Leaderboard) -> list[Caution]:
    """Values of agreement with humans, which is not evidence of faithfulness."""
    names = short_names(board.metrics)
    lines = []
    for metric in board.plausible:
        ordered = board.sorted_by(metric)
        values = [f"{name} {board.summaries[name, metric].value:.3f}" for name in ordered
                  if name in (ordered[0], RANDOM) and (name, metric) in board.summaries]  # fmt: skip
        lines.append(
            f"{names[metric]} is plausibility (agreement with humans), not faithfulness, and does not count in the "
            f"ranking: {', '.join(values)}."
        )
    if not lines:
        return []
    words = f"{'is' if len(lines) == 1 else 'are'} agreement with humans, not faithfulness"
    shown = fitting([names[metric] for metric in board.plausible], _ONE_LINE - len(words) - 1)
    return [Caution(f"{shown} {words}", " ".join(lines))]


def pairs(board: Leaderboard, most: int | None = None) -> list[str]:
    """Compares every method of the user with the best other one: "mine − leave_one_out: +0.002 […], p = 0.7".

    On all deciding metrics, or on the `most` on which it does best, without what the verdict says.
    """
    if board.analysis is None:
        return []
    verdict = " ".join(board.verdict.sentences) if board.verdict is not None else ""
    lines = []
    for name in own_methods(board.about):
        other = next((other for other in board.explainers if other not in (name, RANDOM)), RANDOM)
        both_ways = (*board.analysis.between(name, other), *board.analysis.between(other, name))
        said = {pair.metric for pair in both_ways if str(pair) in verdict}
        if new := [pair for pair in board.analysis.between(name, other) if pair.metric not in said][:most]:
            lines.append(f"{name} − {other}: {'; '.join(pair.numbers for pair in new)}.")
    return lines


def failed(board: Leaderboard) -> list[str]:
    """What is missing from the table because it failed, one sentence per reason."""
    by_reason: dict[tuple[bool, str], list[str]] = {}
    for what, why in board.failures.items():
        partly = " × " in what or what in (CHECK, *board.explainers)
        by_reason.setdefault((partly, why.strip()), []).append(what)
    lines = []
    for (partly, why), named in sorted(by_reason.items(), key=lambda item: item[0][0]):
        missing = "missing here, or resting on fewer seeds" if partly else "not ranked here"
        lines.append(f"Failed, so {missing}: {', '.join(named)}. The reason: {why}")
    if lines:
        lines.append("Fix what failed, then run the same command with --retry.")
    return lines


def _seeds(board: Leaderboard) -> list[str]:
    """How much values vary between seeds, which the intervals do not include."""
    spreads = {key: summary.spread for key, summary in board.summaries.items() if not np.isnan(summary.spread)}
    if not spreads:
        return []
    (explainer, metric), largest = max(spreads.items(), key=lambda item: item[1])
    metric = short_names(board.metrics)[metric]
    return [
        f"Every example's score is its mean over up to {board.seeds} seeds. From seed to seed a number here varies by "
        f"a standard deviation of at most {largest:.2g} ({explainer} × {metric}); intervals and tests are over "
        f"{board.counts} and leave that out."
    ]


def methods(board: Leaderboard) -> str:
    """The measurement in one sentence that can be cited."""
    import troth

    averaged = f"scores averaged over {board.seeds} seeds per example, " if board.seeds > 1 else ""
    short = short_names(board.metrics)
    together = f" on {joined([short[metric] for metric in board.deciding])}" if board.deciding else ""
    return (
        f"Methods: {len(board.explainers)} explainers were measured with {', '.join(board.metrics)} on "
        f"{board.counted} of {board.data} with {board.model}; {averaged}95 % BCa bootstrap intervals over "
        f"{board.counts}, paired t-tests of mean differences with Holm's correction over all pairs{together}; computed "
        f"with troth {troth.__version__}."
    )
