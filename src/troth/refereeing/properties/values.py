"""The scores are what the method claims, compared with closed forms and slow reference implementations."""

from itertools import combinations
from math import factorial

import numpy as np

from troth.refereeing import rule
from troth.refereeing.known import LINEAR, PRODUCT, SYMMETRIC
from troth.refereeing.situations import Floats, Situation
from troth.refereeing.subject import Subject

TEXTS = ("very good", "not very good film", "the not very good film and really bad")
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)  # exact for polynomials up to the 15th degree


@rule(claims=["dummy"], after=["class_asked_about"])
def nothing_to_explain(subject: Subject) -> None:
    """If no word has an effect, as when the text equals the baseline, all scores are 0."""
    for text in ("the film", "the film was a plot"):
        (got,) = subject(subject.known(PRODUCT), [text])
        # Relative to the score of a word that has an effect.
        subject.expect_number(0, np.abs(got.scores).max(), subject.known(PRODUCT).scale, text, "no word has an effect")


@rule(claims=["dummy"], after=["nothing_to_explain"])
def dummy(subject: Subject) -> None:
    """A word without effect gets 0, also next to words that have one."""
    for text in ("good film", "not very good film"):
        (got,) = subject(subject.known(PRODUCT), [text])
        subject.expect_number(0, got.of("film"), np.abs(got.scores).max(), text, "'film' has no effect")


@rule(claims=["symmetry"], after=["class_asked_about"])
def symmetry(subject: Subject) -> None:
    """Two words with the same effect get the same score, wherever they occur."""
    for text in ("good film great", "very good film great"):
        (got,) = subject(subject.known(SYMMETRIC), [text])
        largest = np.abs(got.scores).max()
        subject.expect_number(
            got.of("good"), got.of("great"), largest, text, "the score of 'good', whose effect is the same"
        )


@rule(claims=["linearity"], after=["class_asked_about", "dummy"])
def linearity(subject: Subject) -> None:
    """The scores for a sum of two models are the sums of the scores for each."""
    place = subject.known(PRODUCT)  # its third class is the sum of the first two
    for text in TEXTS:
        first, second, third = (subject(place, [text], target)[0] for target in range(3))
        subject.expect_values(first.scores + second.scores, third, text, "the sum of the scores of its two parts")


@rule(claims=["linear"], after=["class_asked_about", "dummy", "symmetry", "linearity"])
def linear_model(subject: Subject) -> None:
    """On a linear model, each word's score is its contribution."""
    place = subject.known(LINEAR)
    for text in ("good film", "good film bad and a great plot"):
        (got,) = subject(place, [text])
        subject.expect_values(_alone(place, text), got, text, "each word's contribution")


@rule(claims=["completeness"], after=["linear_model"])
def completeness(subject: Subject) -> None:
    """The scores sum to the class's value for the text minus its value with every word erased."""
    place = subject.known(PRODUCT)
    for text in TEXTS:
        (got,) = subject(place, [text])
        rise = place.value(text, 1)
        total = float(got.scores.sum() + got.rest)
        subject.expect_number(rise, total, np.abs(got.scores).max(), text, "the sum of the scores")


@rule(claims=["shapley"], after=["linear_model", "completeness"])
def shapley_values(subject: Subject) -> None:
    """The scores are the exact Shapley values, including interactions of two and three words."""
    place = subject.known(PRODUCT)
    for text in TEXTS:
        subject.expect_values(_shapley(place, text), subject(place, [text])[0], text, "Shapley values by definition")


@rule(claims=["leave_one_out"], after=["linear_model"])
def leave_one_out(subject: Subject) -> None:
    """Each score is the drop in the class's value when the word is removed."""
    place = subject.known(PRODUCT)
    for text in TEXTS:
        words = text.split()
        without = [_value(place, words[:i] + words[i + 1 :]) for i in range(len(words))]
        wanted = [_value(place, words) - value for value in without]
        subject.expect_values(wanted, subject(place, [text])[0], text, "the drop without the word")


@rule(claims=["integrated_gradients"], after=["linear_model", "completeness"])
def integrated_gradients(subject: Subject) -> None:
    """The scores are integrals of the gradient along the straight path from no words to the text."""
    place = subject.known(PRODUCT)
    for text in TEXTS:
        shares = (_NODES + 1) / 2
        slopes = np.stack([place.slopes(text, 1, share) for share in shares])
        wanted = (_WEIGHTS / 2) @ slopes
        subject.expect_values(wanted[1:-1], subject(place, [text])[0], text, "the integral by quadrature")


@rule(claims=["input_x_gradient"], after=["linear_model"])
def input_x_gradient(subject: Subject) -> None:
    """Each score is the word's embedding times its gradient."""
    place = subject.known(PRODUCT)
    for text in TEXTS:
        wanted = place.slopes(text, 1)[1:-1]
        subject.expect_values(wanted, subject(place, [text])[0], text, "the derivative in closed form")


def _value(place: Situation, words: list[str]) -> float:
    return place.value(" ".join(words), 1)


def _alone(place: Situation, text: str) -> list[float]:
    return [_value(place, [word]) for word in text.split()]


def _shapley(place: Situation, text: str) -> Floats:
    """The formula: a weighted sum over all subsets of the other words, which stay in reading order."""
    words = text.split()
    n, scores = len(words), np.zeros(len(words))
    values = {
        kept: _value(place, [words[i] for i in kept]) for size in range(n + 1) for kept in combinations(range(n), size)
    }
    for kept, value in values.items():
        for word in range(n):
            if word not in kept:
                weight = factorial(len(kept)) * factorial(n - len(kept) - 1) / factorial(n)
                scores[word] += weight * (values[tuple(sorted((*kept, word)))] - value)
    return scores
