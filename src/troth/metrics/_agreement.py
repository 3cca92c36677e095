"""Agreement of an explanation with a human rationale, as defined by ERASER (DeYoung et al. 2020).

Agreement measures plausibility, not faithfulness: a model may be right for reasons that no human gave. Unlike in
ERASER, an example without a rationale is undefined (NaN), not 0.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from troth.core.errors import TrothError

Span = tuple[int, int]  # (first unit, last unit + 1)


def token_f1(scores: ArrayLike, rationale: ArrayLike, top: int) -> float:
    """F1 of the `top` units with the highest scores against the human rationale (0 or 1 per unit); NaN for an empty
    rationale.

    Ties are resolved in reading order; a `top` above the number of units selects all of them.

    >>> token_f1([0.9, 0.1, 0.8, 0.2], rationale=[1, 1, 0, 0], top=2)
    0.5
    """
    hit, extra, missed = token_counts(scores, rationale, top)
    return 2 * hit / (2 * hit + extra + missed) if hit + missed else float("nan")


def token_counts(scores: ArrayLike, rationale: ArrayLike, top: int) -> tuple[int, int, int]:
    """True positives, false positives and false negatives of token_f1; pooled over examples they give the micro F1."""
    score, human = _scored(scores, rationale)
    chosen = np.zeros(len(score), bool)
    chosen[top_units(score, top)] = True
    return int((chosen & human).sum()), int((chosen & ~human).sum()), int((~chosen & human).sum())


def top_units(scores: ArrayLike, top: int) -> NDArray[np.intp]:
    """The indices of the `top` highest scores, highest first, ties in reading order."""
    if top < 0:
        raise TrothError(f"top is {top}; it counts units, so it cannot be negative")
    return np.argsort(-np.asarray(scores, np.float64), kind="stable")[:top]


def auprc(scores: ArrayLike, rationale: ArrayLike, *, rule: Literal["steps", "trapezoid"] = "steps") -> float:
    """Area under the precision-recall curve of the scores against the human rationale; NaN for an empty rationale.

    "steps" is scikit-learn's average precision, "trapezoid" the interpolated area that ERASER reports.
    """
    from sklearn.metrics import auc, average_precision_score, precision_recall_curve  # slow to import

    if rule not in ("steps", "trapezoid"):
        raise TrothError(f"no rule is called {rule!r}; there are: steps, trapezoid")
    score, human = _scored(scores, rationale)
    if not human.any():
        return float("nan")
    if rule == "steps":
        return float(average_precision_score(human, score))
    precision, recall, _ = precision_recall_curve(human, score)
    return float(auc(recall, precision))


def intersection_over_union_counts(
    predicted: Sequence[Span], rationale: Sequence[Span], threshold: float = 0.5
) -> tuple[int, int, int]:
    """The numbers of matched predicted spans, predicted spans and rationale spans (each span once), from which ERASER's
    IOU-F1 is computed.

    A predicted span is matched if its intersection over union with some rationale span reaches the threshold.

    >>> intersection_over_union_counts([(0, 4), (8, 9)], [(1, 4)])
    (1, 2, 1)
    """
    guesses, humans = ({(start, stop) for start, stop in spans} for spans in (predicted, rationale))
    matched = sum(any(_intersection_over_union(guess, human) >= threshold for human in humans) for guess in guesses)
    return matched, len(guesses), len(humans)


def spans_of(selected: ArrayLike) -> list[Span]:
    """The runs of consecutive selected units, as spans.

    >>> spans_of([1, 1, 0, 1])
    [(0, 2), (3, 4)]
    """
    edges = np.flatnonzero(np.diff(np.asarray(selected, bool).astype(np.int8), prepend=0, append=0))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def _scored(scores: ArrayLike, rationale: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    score, human = np.asarray(scores, np.float64), np.asarray(rationale, np.float64)
    if score.ndim != 1 or score.shape != human.shape:
        raise TrothError(f"scores {score.shape} and rationale {human.shape} must each have one value per unit")
    return score, human != 0


def _intersection_over_union(first: Span, second: Span) -> float:
    shared = max(0, min(first[1], second[1]) - max(first[0], second[0]))
    union = (first[1] - first[0]) + (second[1] - second[0]) - shared
    return shared / union if union else 0.0
