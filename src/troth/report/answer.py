"""A leaderboard in words: which explainer to use, which cannot be told apart, how many examples it takes.

An explainer is better than another if it is significantly better on a metric that decides and significantly worse on
none. Only what is better than random is ever recommended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from troth.report.comparing import FEWEST, RANDOM, Analysis, PairedComparison
from troth.report.prices import Prices, price
from troth.store.records import own_methods

if TYPE_CHECKING:
    from troth.report.board import Leaderboard

CHECK = "the check whether masked inputs are in distribution"
_WIDE = 2.0  # an interval of a number that should lie in [0, 1]: it was divided by nearly nothing
Kind = Literal["winner", "tie", "none", "too few", "open"]


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
    copies = "equal or nearly equal texts"
    which = f"examples of one group, and {copies}," if board.clustering.has_groups else copies
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


@dataclass(frozen=True)
class Verdict:
    """`best` is the winner, or those better than random that cannot be told apart; `useless` are not shown to be."""

    kind: Kind
    sentences: tuple[str, ...]
    best: tuple[str, ...] = ()
    useless: tuple[str, ...] = ()


def judge(
    analysis: Analysis,
    order: Sequence[str],
    seconds: Mapping[str, float],
    counts: str = "examples",
    passes: Mapping[str, float] | None = None,
) -> Verdict:
    """The verdict on explainers, given from the best mean place to the worst, with the seconds and passes each takes.

    The cheapest is the one of the fewest passes, and of several with as many the one with the best mean place: times
    vary from run to run, so they decide only where no passes were counted.

    `counts` is what a score is of: examples, or clusters of them.
    """
    real = [name for name in order if name != RANDOM]
    if why := _why_open(analysis, real, order):
        return Verdict("open", (f"No verdict: {why}.",))
    against_random = {name: analysis.between(name, RANDOM) for name in real}
    compared = [pair for pairs in against_random.values() for pair in pairs]
    if not compared:
        return Verdict("open", ("No verdict: no metric that decides has scores of random and of another explainer.",))
    if max(pair.count for pair in compared) < FEWEST:
        return Verdict("too few", (_too_few(compared[0], counts),))
    better = [name for name in real if analysis.is_better(name, RANDOM)]
    mixed = [name for name in real if {name, RANDOM} <= {pair.better for pair in against_random[name]}]
    useless = tuple(name for name in real if against_random[name] and name not in (*better, *mixed))
    disagreed = [f"Metrics disagree on whether {joined(mixed)} can beat random."] if mixed else []
    if not better and mixed:
        return Verdict("open", tuple(disagreed), (), useless)
    if not better:
        closest = max(compared, key=lambda pair: pair.size)
        none = "None is better than random here" if len(real) > 1 else f"{real[0]} is not better than random here"
        return Verdict("none", (f"{none} ({closest}).", *power(closest, counts)), (), useless)
    # Of those that nothing is better than, the one with the best mean place.
    unbeaten = [name for name in better if not any(analysis.is_better(other, name) for other in better)] or better
    leader = unbeaten[0]
    alike = [name for name in real if name != leader and not analysis.is_better(leader, name)]
    rivals = [name for name in alike if name in better]
    if alike:
        sentences = _tie(analysis, leader, rivals, alike, Prices(seconds, passes or {}), counts)
    else:
        sentences = [_winner(analysis, leader, [name for name in real if name != leader])]
        sentences += price(analysis, leader, [name for name in better if name != leader], Prices(seconds, passes or {}))
    if useless:
        sentences.append(f"Not shown to be better than random here: {', '.join(useless)}.")
    sentences += disagreed
    return Verdict("tie" if alike else "winner", tuple(sentences), (leader, *rivals), useless)


def _why_open(analysis: Analysis, real: Sequence[str], order: Sequence[str]) -> str:
    if not real:
        return f"there is no explainer but {RANDOM}"
    if not analysis.deciding:
        return "no metric here decides between explainers; add aopc_comprehensiveness or aopc_sufficiency"
    if RANDOM not in order:
        return f"{RANDOM}, to compare with, was not measured"
    return ""


def _winner(analysis: Analysis, leader: str, others: Sequence[str]) -> str:
    if not others:
        return f"Use {leader}: it is better than random here ({analysis.between(leader, RANDOM)[0]})."
    closest = min((analysis.between(leader, other)[0] for other in others), key=lambda pair: pair.size)
    return f"Use {leader}: better than random and than {joined(others)} (the closest: {closest})."


def _tie(
    analysis: Analysis,
    leader: str,
    rivals: Sequence[str],
    alike: Sequence[str],
    prices: Prices,
    counts: str,
) -> list[str]:
    """`alike` cannot be told from the leader; of them, `rivals` are better than random, too."""
    others = rivals or alike
    pairs = analysis.between(leader, others[0])
    split = {pair.better: pair.metric for pair in pairs if pair.better is not None}
    # Where only the second were better, it would be the leader.
    disagree = leader in split and others[0] in split
    if disagree:
        why = "metrics disagree: " + ", ".join(f"{name} is better on {split[name]}" for name in (leader, others[0]))
    else:
        why = str(pairs[0]) if pairs else "no metric that decides has scores of both"
    if rivals:
        cheapest = min([leader, *rivals], key=prices.order)
        cost = prices.of(cheapest)
        advice = f"use the cheapest of them: {cheapest}{cost and f' ({cost})'}"
    else:
        advice = f"use {leader}, the only one that is shown to be better than random"
    tie = f"Cannot tell {joined([leader, *others])} apart ({why}); {advice}."
    return [tie, *(power(pairs[0], counts) if pairs and not disagree else ())]


def power(pair: PairedComparison, counts: str) -> tuple[str, ...]:
    """What so many examples could have shown, and how many it takes."""
    if np.isinf(pair.detectable) or not np.isinf(pair.needed):
        return (_too_few(pair, counts),)
    return (
        f"With {pair.count} {counts}, differences under {pair.detectable:.2g} in {pair.metric} cannot be seen; "
        f"{pair.first} and {pair.second} are so close that no number of {counts} is likely to tell them apart.",
    )


def _too_few(pair: PairedComparison, counts: str) -> str:
    seen = (
        "no difference can be seen"
        if np.isinf(pair.detectable)
        else f"differences under {pair.detectable:.2g} in {pair.metric} cannot be seen"
    )
    would = (
        f"use at least {FEWEST}" if np.isinf(pair.needed) else
        f"about {_rounded(pair.needed):,} would do to tell {pair.first} from {pair.second}"
    )  # fmt: skip
    return f"Too few {counts}: with {pair.count}, {seen}; {would}."


def _rounded(count: float) -> int:
    """Upwards to two digits: an estimate."""
    step = 10 ** max(0, len(str(int(count))) - 2)
    return int(np.ceil(count / step) * step)


def joined(names: Sequence[str]) -> str:
    """A list as people write it.

    >>> joined(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
