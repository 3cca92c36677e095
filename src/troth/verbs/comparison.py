"""Which of several explanations of one text is most faithful to the model, and whether that can be decided at all.

One text is one observation, so the rule is strict. A method is called most faithful only if

1. it beats chance: the share of random choices of units that lower the probability at least as much, times the number
   of methods shown (the best of several random methods looks good by chance, too), is at most 5 %; and
2. its lead over every other method exceeds chance: the share of pairs of random choices that differ at least as much,
   times the number of other methods, is at most 5 %.

If all methods chose at random, rule 1 alone would name a winner for at most 5 % of texts. Rule 2 separates two methods
that both beat chance. The result holds for this text, this share of units and this masking; for a claim about a method,
use `troth bench` with many texts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from troth.core.numbers import p_value
from troth.core.proof import Proof
from troth.core.types import Attribution

LEVEL = 0.05
SAME = 1e-6  # probabilities this close count as equal: the batch shape changes them by as much


@dataclass(frozen=True)
class Comparison:
    """The winner or, if there is none, the reason."""

    leader: int  # index of the method that lowers the probability most
    best: int | None  # the leader, if its result exceeds chance
    chance: float  # p-value that a random choice does as well as the leader, corrected for the number of methods
    # P-value that two random choices differ as much as the leader and the nearest other, corrected likewise.
    lead: float
    tied: tuple[int, ...]  # methods that cannot be distinguished from the leader
    too_short: bool  # with so few choices, no method could have beaten chance


def compare(proofs: Sequence[Proof]) -> Comparison:
    """Compares the proofs of one text's methods for one class; for a single method, tests whether it beats chance."""
    methods = len(proofs)
    leader = min(range(methods), key=lambda place: proofs[place].without_top)
    first = proofs[leader]
    chance = min(1.0, first.chance * methods)
    leads = {
        place: min(1.0, _as_far_apart(first, proof.without_top - first.without_top) * (methods - 1))
        for place, proof in enumerate(proofs)
        if place != leader
    }
    tied = tuple(place for place, lead in leads.items() if lead > LEVEL)
    best = leader if chance <= LEVEL and not tied else None
    smallest = 1 / first.choices if first.exact else 1 / (1 + first.choices)
    return Comparison(
        leader, best, chance, max(leads.values(), default=0.0), tied, too_short=smallest * methods > LEVEL
    )


def _as_far_apart(proof: Proof, gap: float) -> float:
    """The share of pairs of random choices whose probabilities differ by at least the gap.

    Pairs have choices in common, so they are less informative than independent pairs: never below 1 / (1 + choices).
    """
    random = np.asarray(proof.random)
    apart = np.abs(random[:, None] - random[None]) >= gap - SAME  # [choices, choices]
    if proof.exact:
        return float(apart.mean())
    pairs = len(random) * (len(random) - 1) // 2
    return max((1 + int(np.triu(apart, 1).sum())) / (1 + pairs), 1 / (1 + len(random)))


def sentence(attributions: Sequence[Attribution]) -> str:
    """The comparison of one text's explanations as a sentence; empty if there is nothing to compare."""
    proofs = [each.proof for each in attributions if each.proof is not None and each.proof.random]
    if not proofs or len(proofs) < len(attributions) or len({each.target for each in attributions}) > 1:
        return ""
    names, units = _names(attributions), f"{attributions[0].question.encoding.unit_kind}s"
    found = compare(proofs)
    name = names[found.leader]
    if found.too_short:
        proof, total = proofs[0], attributions[0].question.n_units
        erased = f"{proof.count} of {total} {units if total > 1 else units[:-1]}"
        tried = f"{proof.choices} random choices of as many were tried"
        if proof.exact:
            ways = "is only 1 way" if proof.choices == 1 else f"are only {proof.choices} ways"
            tried = f"there {ways} to choose them"
        needed = math.ceil(len(proofs) / LEVEL) - (not proof.exact)
        what = "one method" if len(proofs) == 1 else f"{len(proofs)} methods"
        return (
            f"Cannot tell whether a method beats chance here: the proof erases {erased}, and {tried}; "
            f"a test of {what} needs at least {needed}."
        )
    if found.chance > LEVEL:
        who = f"{name} is not" if len(proofs) == 1 else "No method is"
        chance = p_value(found.chance)
        at_best = chance if len(proofs) == 1 else f"{name}: {chance}, corrected for {len(proofs)} methods"
        return f"{who} shown to beat random {units} on this text ({at_best})."
    if found.tied:
        tied = ", ".join([name, *(names[place] for place in found.tied[:-1])])
        return (
            f"Cannot tell {tied} and {names[found.tied[-1]]} apart on this text: they differ no more than two "
            f"random choices of {units} do ({p_value(found.lead)})."
        )
    if len(proofs) == 1:
        return f"{name} beats random {units} on this text ({p_value(found.chance)})."
    others = [place for place in range(len(proofs)) if place != found.leader]
    nearest = min(others, key=lambda place: proofs[place].without_top)
    return (
        f"Most faithful on this text: {name}. It differs from {names[nearest]} more than two random choices of "
        f"{units} usually differ ({p_value(found.lead)})."
    )


def _names(attributions: Sequence[Attribution]) -> list[str]:
    """Each method's name, with its options if several methods have the same name."""
    specs = [attribution.explainer or "imported scores" for attribution in attributions]
    short = [spec.partition("(")[0] for spec in specs]
    return [name if short.count(name) == 1 else spec for name, spec in zip(short, specs, strict=True)]
