"""What a table of scores allows to say: which explainer to use, which cannot be told apart, how many examples it takes.

An explainer is better than another if it is significantly better on a metric that decides and significantly worse on
none. Only what is better than random is ever recommended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from troth.report.comparing import FEWEST, Analysis, PairedComparison

Kind = Literal["winner", "tie", "none", "too few", "open"]


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
    random: str = "random",
    counts: str = "examples",
) -> Verdict:
    """The verdict on explainers, given from the best mean place to the worst, with the seconds each takes.

    `counts` is what a score is of: examples, or clusters of them.
    """
    real = [name for name in order if name != random]
    if why := _why_open(analysis, real, order, random):
        return Verdict("open", (f"No verdict: {why}.",))
    against_random = {name: analysis.between(name, random) for name in real}
    compared = [pair for pairs in against_random.values() for pair in pairs]
    if not compared:
        return Verdict("open", ("No verdict: no metric that decides has scores of random and of another explainer.",))
    if max(pair.count for pair in compared) < FEWEST:
        return Verdict("too few", (_too_few(against_random[_first(real, against_random)][0], counts),))
    better = [name for name in real if analysis.is_better(name, random)]
    mixed = [name for name in real if {name, random} <= {pair.better for pair in against_random[name]}]
    useless = tuple(name for name in real if against_random[name] and name not in (*better, *mixed))
    disagreed = [f"Metrics disagree on whether {joined(mixed)} can beat random."] if mixed else []
    if not better and mixed:
        return Verdict("open", tuple(disagreed), (), useless)
    if not better:
        closest = max(compared, key=lambda pair: pair.size)
        none = "None is better than random here" if len(real) > 1 else f"{real[0]} is not better than random here"
        return Verdict("none", (f"{none} ({closest}).", *_power(closest, counts)), (), useless)
    # Of those that nothing is better than, the one with the best mean place.
    unbeaten = [name for name in better if not any(analysis.is_better(other, name) for other in better)] or better
    leader = unbeaten[0]
    alike = [name for name in real if name != leader and not analysis.is_better(leader, name)]
    rivals = [name for name in alike if name in better]
    if alike:
        sentences = _tie(analysis, leader, rivals, alike, seconds, counts)
    else:
        sentences = [_winner(analysis, leader, [name for name in real if name != leader], random)]
    if useless:
        sentences.append(f"Not shown to be better than random here: {', '.join(useless)}.")
    sentences += disagreed
    return Verdict("tie" if alike else "winner", tuple(sentences), (leader, *rivals), useless)


def _why_open(analysis: Analysis, real: Sequence[str], order: Sequence[str], random: str) -> str:
    if not real:
        return f"there is no explainer but {random}"
    if not analysis.deciding:
        return "no metric here decides between explainers; add aopc_comprehensiveness or aopc_sufficiency"
    if random not in order:
        return f"{random}, to compare with, was not measured"
    return ""


def _first(real: Sequence[str], compared: Mapping[str, Sequence[PairedComparison]]) -> str:
    return next(name for name in real if compared[name])


def _winner(analysis: Analysis, leader: str, others: Sequence[str], random: str) -> str:
    if not others:
        return f"Use {leader}: it is better than random here ({analysis.between(leader, random)[0]})."
    closest = min((analysis.between(leader, other)[0] for other in others), key=lambda pair: pair.size)
    return f"Use {leader}: better than random and than {joined(others)} (the closest: {closest})."


def _tie(
    analysis: Analysis,
    leader: str,
    rivals: Sequence[str],
    alike: Sequence[str],
    seconds: Mapping[str, float],
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
        cheapest = min([leader, *rivals], key=lambda name: seconds.get(name, np.inf))
        cost = f" ({1000 * seconds[cheapest]:.0f} ms per example)" if cheapest in seconds else ""
        advice = f"use the cheapest of them: {cheapest}{cost}"
    else:
        advice = f"use {leader}, the only one that is shown to be better than random"
    tie = f"Cannot tell {joined([leader, *others])} apart ({why}); {advice}."
    return [tie, *(_power(pairs[0], counts) if pairs and not disagree else ())]


def _power(pair: PairedComparison, counts: str) -> tuple[str, ...]:
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
