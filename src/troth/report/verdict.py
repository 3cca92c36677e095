"""Which explainer to use according to the scores: the winner, those that cannot be told apart, or none.

An explainer is better than another if it is significantly better on a deciding metric and significantly worse on none.
Only explainers that are better than random are recommended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from troth.report.comparing import FEWEST, RANDOM, Analysis, PairedComparison
from troth.report.prices import Prices, price
from troth.report.wording import joined

_NAMED = 3  # explainers named in a sentence; the table lists all of them
Kind = Literal["winner", "tie", "none", "too few", "open"]


@dataclass(frozen=True)
class Verdict:
    """`best` is the winner, or those better than random that cannot be told apart; `useless` are not shown to beat
    random.
    """

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
    """The verdict on explainers, which are given in the order of their mean rank, with the seconds and passes of
    each.

    The cheapest is the one with the fewest passes and, among equals, the best mean rank. Times vary from run to run, so
    they only decide if no passes were counted.

    `counts` names the units of the scores: examples, or clusters of them.
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
    disagreed = [f"Metrics disagree on whether {joined(mixed, _NAMED)} can beat random."] if mixed else []
    if not better and mixed:
        return Verdict("open", tuple(disagreed), (), useless)
    if not better:
        closest = max(compared, key=lambda pair: pair.size)
        none = "No explainer is" if len(real) > 1 else f"{real[0]} is not"
        said = (f"{none} shown to beat random.", f"The closest: {closest}.", *power(closest, counts))
        return Verdict("none", said, (), useless)
    # The explainer with the best mean rank among those that no other one beats.
    unbeaten = [name for name in better if not any(analysis.is_better(other, name) for other in better)] or better
    leader = unbeaten[0]
    alike = [name for name in real if name != leader and not analysis.is_better(leader, name)]
    rivals = [name for name in alike if name in better]
    if alike:
        sentences = _tie(analysis, leader, rivals, alike, Prices(seconds, passes or {}), counts)
    else:
        sentences = _winner(analysis, leader, [name for name in real if name != leader])
        sentences += price(analysis, leader, [name for name in better if name != leader], Prices(seconds, passes or {}))
    if useless:
        sentences.append(f"Not shown to beat random: {joined(useless, _NAMED)}.")
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


def _winner(analysis: Analysis, leader: str, others: Sequence[str]) -> list[str]:
    if not others:
        return [f"Use {leader}: it beats random.", f"{analysis.between(leader, RANDOM)[0]}."]
    closest = min((analysis.between(leader, other)[0] for other in others), key=lambda pair: pair.size)
    beaten = joined([RANDOM, *others]) if len(others) < _NAMED else f"random and all {len(others)} other explainers"
    return [f"Use {leader}: it beats {beaten}.", f"The closest: {closest}."]


def _tie(
    analysis: Analysis,
    leader: str,
    rivals: Sequence[str],
    alike: Sequence[str],
    prices: Prices,
    counts: str,
) -> list[str]:
    """`alike` cannot be distinguished from the leader; `rivals` are those of them that are also better than random."""
    others = rivals or alike
    pairs = analysis.between(leader, others[0])
    split = {pair.better: pair.named for pair in pairs if pair.better is not None}
    # If only the second were better, it would be the leader.
    disagree = leader in split and others[0] in split
    if disagree:
        why = "Metrics disagree: " + ", ".join(f"{name} is better on {split[name]}" for name in (leader, others[0]))
    else:
        why = str(pairs[0]) if pairs else "No metric that decides has scores of both"
    if rivals:
        cheapest = min([leader, *rivals], key=prices.order)
        cost = prices.of(cheapest)
        advice = f"Use the cheapest of them: {cheapest}{cost and f' ({cost})'}."
    else:
        advice = f"Use {leader}, the only one shown to beat random."
    tie = f"Cannot tell {joined([leader, *others], _NAMED)} apart."
    return [tie, advice, f"{why}.", *(power(pairs[0], counts) if pairs and not disagree else ())]


def power(pair: PairedComparison, counts: str) -> tuple[str, ...]:
    """Which differences this number of examples could have shown, and how many are needed."""
    if np.isinf(pair.detectable) or not np.isinf(pair.needed):
        return (_too_few(pair, counts),)
    return (
        f"{pair.count} {counts} show differences from {pair.detectable:.2g} on; no number of {counts} is likely to "
        "show one here.",
    )


def _too_few(pair: PairedComparison, counts: str) -> str:
    seen = "any difference" if np.isinf(pair.detectable) else f"differences under {pair.detectable:.2g}"
    would = (
        f"use at least {FEWEST}" if np.isinf(pair.needed) else
        f"about {_rounded(pair.needed):,} would"
    )  # fmt: skip
    return f"Too few {counts}: {pair.count} cannot show {seen}; {would}."


def _rounded(count: float) -> int:
    """An estimate, rounded up to two digits."""
    step = 10 ** max(0, len(str(int(count))) - 2)
    return int(np.ceil(count / step) * step)
