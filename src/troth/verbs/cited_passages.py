"""How much each passage of a prompt raises the log-probability of an answer, which ones it rests on, and the proof.

A passage's score is by how much the log-probability of the answer (or of one of its sentences) falls when the passage
is erased from the prompt. ContextCite (Cohen-Wang et al., 2024) explains the same log-probability by random ablations;
here each passage is erased alone. One pass over an erased prompt serves the answer and all of its sentences.

A passage is cited where its score is at least log 2 (without it the answer is at most half as probable), a tenth of the
highest score and, among four passages or more, five times the median magnitude of all scores. Where no passage is
missed alone although the answer needs them, several may say the same: then those are cited that stand out when each is
shown alone (and reach three quarters of the best), if the answer falls without all of them by more than without as many
others.

Sentences are asked about only in passages that are cited or that score more than `tolerance` times the highest score of
a part of the answer that cites something. So no undivided passage scores more than that; and what all of them do
together is measured with one more pass.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, log

import numpy as np
import torch
from numpy.typing import NDArray

from troth.core.cited import CitationProof
from troth.core.types import Encoding, Question
from troth.core.units import Span
from troth.engine.answers import Answers
from troth.engine.probes import Probe
from troth.engine.routines import Routine

_HALVED = log(2)  # by how much a log-probability falls when the probability is halved
_SHARE = 0.1  # of the highest score
_STANDS_OUT = 5  # times the median magnitude
_ABOUT = 0.75  # of what the best passage does alone
_FEW = 4  # passages, below which that median says nothing
Values = NDArray[np.float64]
Places = tuple[int, ...]
# Of some passages: where their sentences are, and the encoding whose units they are.
Divide = Callable[[Sequence[int]], tuple[list[tuple[int, Span]], Encoding | None]]


@dataclass(frozen=True, eq=False)
class PassageScores:
    """What was measured; the last axis is the parts of the answer, the whole first."""

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
    """All that is asked of the model; `columns` ([columns of the model, parts]) says which ones a part sums."""
    question, count = Question(passages, 0, seed=seed), passages.n_units

    def values(answers: Answers) -> Values:
        return answers.logits.double().numpy()[:, : len(columns)] @ columns

    (whole,) = values((yield Probe(question, torch.ones(1, count))))  # first: its states serve the erased prompts
    empty, *without = values((yield Probe(question, torch.cat([torch.zeros(1, count), 1 - torch.eye(count)]))))
    scores = whole - np.stack(without)
    cited = [standing_out(column) for column in scores.T]
    candidates: dict[int, Places] = {}  # of parts that need passages, but none of them alone
    needing = [part for part, places in enumerate(cited) if not places and whole[part] - empty[part] >= _HALVED]
    if needing and count > 1:
        alone = values((yield Probe(question, torch.eye(count)))) - empty
        same = {part: _same(alone[:, part]) for part in needing}
        candidates = {part: places for part, places in same.items() if len(places) > 1}
    erased = [candidates.get(part) or places or (int(scores[:, part].argmax()),) for part, places in enumerate(cited)]
    sets = [_others(places, count, choices, question) for places in erased]
    # What was measured already is not asked for again.
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
    # What one of its sentences rests on, the whole answer does.
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
    """Places of the scores that are large beside the others, the largest first.

    >>> standing_out(np.array([0.1, -0.3, 9.0, 0.2, 4.0, 0.2, -0.1])), standing_out(np.array([2.0, 1.5, 2.5, 1.0]))
    ((2, 4), ())
    """
    usual = float(np.sort(np.abs(scores))[(len(scores) - 1) // 2]) if len(scores) >= _FEW else 0.0
    least = max(_HALVED, _STANDS_OUT * usual, _SHARE * float(scores.max()))
    order = np.argsort(-scores, kind="stable").tolist()
    return tuple(place for place in order if scores[place] >= least)


def _same(alone: Values) -> Places:
    """Those that stand out, as far as they do about as well alone as the best of them."""
    return tuple(place for place in standing_out(alone) if alone[place] >= _ABOUT * alone.max())


def _without(places: Iterable[int], count: int) -> torch.Tensor:
    """[passages] all but these."""
    keep = torch.ones(count)
    keep[list(places)] = 0
    return keep


def _others(places: Places, count: int, choices: int, question: Question) -> tuple[list[Places], bool]:
    """As many other passages as these, chosen at random; and whether those are all the choices there are."""
    size, rest = len(places), [place for place in range(count) if place not in places]
    pool = rest if len(rest) >= size else list(range(count))
    if size == 1 or comb(len(pool), size) <= choices:
        return [each for each in combinations(pool, size) if set(each) != set(places)], True
    order = question.draws("cite").uniforms(choices, len(pool)).argsort(dim=1, stable=True)[:, :size]
    drawn = {tuple(sorted(pool[place] for place in row)) for row in order.tolist()} - {tuple(sorted(places))}
    return sorted(drawn), False


def _matters(proof: CitationProof, whole: float) -> bool:
    """Whether a part loses more without these passages than without any of the others."""
    lost = whole - proof.without_cited
    return lost >= _HALVED and (proof.random_low is None or proof.without_cited < proof.random_low)


def _worth_dividing(scores: Values, cited: Sequence[Places], tolerance: float) -> Places:
    """Passages whose sentences are asked about, in reading order."""
    if tolerance == 0:
        return tuple(range(len(scores)))
    found = {place for places in cited for place in places}
    for part, places in enumerate(cited):
        if places:
            found |= set(np.flatnonzero(scores[:, part] > tolerance * scores[:, part].max()).tolist())
    return tuple(sorted(found))
