"""How much each passage of a prompt raises the log-probability of an answer, which ones are cited, and the proof.

A passage's score is the drop in the log-probability of the answer (or of one of its sentences) when the passage is
erased from the prompt. ContextCite (Cohen-Wang et al., 2024) explains the same log-probability by random ablations;
here, each passage is erased on its own. One forward pass over an erased prompt serves the answer and all of its
sentences.

A passage is cited if its score is at least log 2 (without it, the answer is at most half as probable), at least a tenth
of the highest score and, with four passages or more, at least five times the median magnitude of all scores. If the
answer needs passages although erasing any single one changes little, several may contain the same information. Then
each passage is shown alone: those that stand out (and reach three quarters of the best) are cited if erasing all of
them lowers the log-probability by more than erasing as many other passages.

Sentences are scored only in passages that are cited or that score more than `tolerance` times the highest score of a
part of the answer that cites something. So no undivided passage scores more than that, and one more forward pass
measures the joint effect of all undivided passages.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, log

import numpy as np
import torch
from numpy.typing import NDArray

from troth.core.cited import FEW, CitationProof
from troth.core.types import Encoding, Question
from troth.core.units import Span
from troth.engine.answers import Answers
from troth.engine.probes import Probe
from troth.engine.routines import Routine

_HALVED = log(2)  # drop of a log-probability when the probability is halved
_SHARE = 0.1  # minimum share of the highest score
_STANDS_OUT = 5  # minimum multiple of the median magnitude
_ABOUT = 0.75  # minimum share of the score of the best passage alone
Values = NDArray[np.float64]
Places = tuple[int, ...]
# Maps passage indices to their sentences (with passage index) and the encoding that has them as units.
Divide = Callable[[Sequence[int]], tuple[list[tuple[int, Span]], Encoding | None]]


@dataclass(frozen=True, eq=False)
class PassageScores:
    """The measurements; the last axis is the parts of the answer, with the whole answer first."""

    whole: Values
    empty: Values
    scores: Values  # [passages, parts]
    cited: Sequence[Places]
    repeated: set[int]
    proofs: Sequence[CitationProof]
    divided: Places
    undivided: float
    sentences: Sequence[tuple[int, Span]]
    sentence_scores: Values  # [sentences, parts]


def measured(
    passages: Encoding, divide: Divide, columns: Values, *, tolerance: float, choices: int, seed: int
) -> Routine[PassageScores]:
    """Measures everything; `columns` ([model outputs, parts]) says which outputs each part sums."""
    question, count = Question(passages, 0, seed=seed), passages.n_units

    def values(answers: Answers) -> Values:
        return answers.logits.double().numpy()[:, : len(columns)] @ columns

    # First, because its cached states are reused for the erased prompts.
    (whole,) = values((yield Probe(question, torch.ones(1, count))))
    empty, *without = values((yield Probe(question, torch.cat([torch.zeros(1, count), 1 - torch.eye(count)]))))
    scores = whole - np.stack(without)
    cited = [standing_out(column) for column in scores.T]
    candidates: dict[int, Places] = {}  # for parts that need passages, although no single one
    needing = [part for part, places in enumerate(cited) if not places and whole[part] - empty[part] >= _HALVED]
    if needing and count > 1:
        alone = values((yield Probe(question, torch.eye(count)))) - empty
        same = {part: _same(alone[:, part]) for part in needing}
        candidates = {part: places for part, places in same.items() if len(places) > 1}
    erased = [candidates.get(part) or places or (int(scores[:, part].argmax()),) for part, places in enumerate(cited)]
    sets = [_others(places, count, choices, question) for places in erased]
    # Known measurements are not requested again.
    known = {frozenset([place]): row for place, row in enumerate(without)} | {frozenset(range(count)): empty}
    asked = list(dict.fromkeys(map(frozenset, [*erased, *(one for some, _ in sets for one in some)])))
    asked = [each for each in asked if each not in known]
    if asked:
        rows = values((yield Probe(question, torch.stack([_without(each, count) for each in asked]))))
        known |= dict(zip(asked, rows, strict=True))
    proofs = []
    for part, (places, (others, exact)) in enumerate(zip(erased, sets, strict=True)):
        left = [float(known[frozenset(other)][part]) for other in others]
        proofs.append(
            CitationProof(
                erased=places,
                without_cited=float(known[frozenset(places)][part]),
                without_random=float(np.mean(left)) if left else None,
                random_low=min(left, default=None),
                random_high=max(left, default=None),
                choices=len(left),
                exact=exact,
            )
        )
    repeated = {part for part in candidates if _matters(proofs[part], float(whole[part]))}
    for part in repeated:
        cited[part] = candidates[part]
    # The whole answer cites every passage that one of its sentences cites.
    together = dict.fromkeys(place for places in cited for place in places)
    cited[0] = tuple(sorted(together, key=lambda place: -scores[place, 0]))
    divided = _worth_dividing(scores, cited, tolerance)
    sentences, encoding = divide(divided)
    sentence_scores = np.zeros((0, len(whole)))
    rest = frozenset(range(count)) - set(divided)
    if encoding is not None:
        kept = 1 - torch.eye(encoding.n_units)
        probes = [Probe(Question(encoding, 0, seed=seed), kept), Probe(question, _without(rest, count)[None])]
        each, (without_rest,) = map(values, (yield probes))
        sentence_scores = whole - each
    else:
        without_rest = empty
    undivided = float(whole[0] - without_rest[0])
    return PassageScores(whole, empty, scores, cited, repeated, proofs, divided, undivided, sentences, sentence_scores)


def standing_out(scores: Values) -> Places:
    """Indices of the scores that are large compared with the others, in descending order of score.

    >>> standing_out(np.array([0.1, -0.3, 9.0, 0.2, 4.0, 0.2, -0.1])), standing_out(np.array([2.0, 1.5, 2.5, 1.0]))
    ((2, 4), ())
    """
    usual = float(np.sort(np.abs(scores))[(len(scores) - 1) // 2]) if len(scores) >= FEW else 0.0
    least = max(_HALVED, _STANDS_OUT * usual, _SHARE * float(scores.max()))
    order = np.argsort(-scores, kind="stable").tolist()
    return tuple(place for place in order if scores[place] >= least)


def _same(alone: Values) -> Places:
    """The passages that stand out and reach nearly the score of the best passage when shown alone."""
    return tuple(place for place in standing_out(alone) if alone[place] >= _ABOUT * alone.max())


def _without(places: Iterable[int], count: int) -> torch.Tensor:
    """[passages] A keep mask without these passages."""
    keep = torch.ones(count)
    keep[list(places)] = 0
    return keep


def _others(places: Places, count: int, choices: int, question: Question) -> tuple[list[Places], bool]:
    """Random choices of as many other passages, and whether they are all such choices."""
    size, rest = len(places), [place for place in range(count) if place not in places]
    pool = rest if len(rest) >= size else list(range(count))
    if size == 1 or comb(len(pool), size) <= choices:
        return [each for each in combinations(pool, size) if set(each) != set(places)], True
    order = question.draws("cite").uniforms(choices, len(pool)).argsort(dim=1, stable=True)[:, :size]
    drawn = {tuple(sorted(pool[place] for place in row)) for row in order.tolist()} - {tuple(sorted(places))}
    return sorted(drawn), False


def _matters(proof: CitationProof, whole: float) -> bool:
    """Whether a part loses more without these passages than without any of the random choices."""
    lost = whole - proof.without_cited
    return lost >= _HALVED and (proof.random_low is None or proof.without_cited < proof.random_low)


def _worth_dividing(scores: Values, cited: Sequence[Places], tolerance: float) -> Places:
    """Passages to be divided into sentences, in reading order."""
    if tolerance == 0:
        return tuple(range(len(scores)))
    found = {place for places in cited for place in places}
    for part, places in enumerate(cited):
        if places:
            found |= set(np.flatnonzero(scores[:, part] > tolerance * scores[:, part].max()).tolist())
    return tuple(sorted(found))
