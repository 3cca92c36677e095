"""That the scores are what the method claims: closed forms and slow twins, on models with known answers."""

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
    """Where no word has an effect, as in a text equal to the baseline, all scores are 0."""
    for text in ("the film", "the film was a plot"):
        (came,) = subject(subject.known(PRODUCT), [text])
        # Of what a word that matters gets.
        subject.expect_number(0, np.abs(came.scores).max(), subject.known(PRODUCT).scale, text, "no word has an effect")


@rule(claims=["dummy"], after=["nothing_to_explain"])
def dummy(subject: Subject) -> None:
    """A word without any effect gets 0 next to words that have one."""
    for text in ("good film", "not very good film"):
        (came,) = subject(subject.known(PRODUCT), [text])
        subject.expect_number(0, came.of("film"), np.abs(came.scores).max(), text, "'film' has no effect")


@rule(claims=["symmetry"], after=["class_asked_about"])
def symmetry(subject: Subject) -> None:
    """Two words with the same effect get the same score, wherever they stand."""
    for text in ("good film great", "very good film great"):
        (came,) = subject(subject.known(SYMMETRIC), [text])
        largest = np.abs(came.scores).max()
        subject.expect_number(came.of("good"), came.of("great"), largest, text, "the score of 'good', here the same")


@rule(claims=["linearity"], after=["class_asked_about", "dummy"])
def linearity(subject: Subject) -> None:
    """The scores of a sum of two models are the sums of their scores."""
    place = subject.known(PRODUCT)  # its third class is the sum of the first two
    for text in TEXTS:
        first, second, third = (subject(place, [text], target)[0] for target in range(3))
        subject.expect_values(first.scores + second.scores, third, text, "the sum of the scores of its two parts")


@rule(claims=["linear"], after=["class_asked_about", "dummy", "symmetry", "linearity"])
def linear_model(subject: Subject) -> None:
    """On a linear model each word's score is what it adds."""
    place = subject.known(LINEAR)
    for text in ("good film", "good film bad and a great plot"):
        (came,) = subject(place, [text])
        subject.expect_values(_alone(place, text), came, text, "what each word adds")


@rule(claims=["completeness"], after=["linear_model"])
def completeness(subject: Subject) -> None:
    """The scores sum to what the class's value rises by, compared with a text of which everything is erased."""
    place = subject.known(PRODUCT)
    for text in TEXTS:
        (came,) = subject(place, [text])
        rise = place.value(text, 1)
        total = float(came.scores.sum() + came.rest)
        subject.expect_number(rise, total, np.abs(came.scores).max(), text, "the sum of the scores")


@rule(claims=["shapley"], after=["linear_model", "completeness"])
def shapley_values(subject: Subject) -> None:
    """The scores are the Shapley values, also where two and three words act together."""
    place = subject.known(PRODUCT)
    for text in TEXTS:
        subject.expect_values(_shapley(place, text), subject(place, [text])[0], text, "Shapley values by definition")


@rule(claims=["leave_one_out"], after=["linear_model"])
def leave_one_out(subject: Subject) -> None:
    """Each score is what the class's value loses without the word."""
    place = subject.known(PRODUCT)
    for text in TEXTS:
        words = text.split()
        without = [_value(place, words[:i] + words[i + 1 :]) for i in range(len(words))]
        wanted = [_value(place, words) - value for value in without]
        subject.expect_values(wanted, subject(place, [text])[0], text, "what is lost without the word")


@rule(claims=["integrated_gradients"], after=["linear_model", "completeness"])
def integrated_gradients(subject: Subject) -> None:
    """The scores are the integrals of the gradient on the straight path from nothing to the text."""
    place = subject.known(PRODUCT)
    for text in TEXTS:
        shares = (_NODES + 1) / 2
        slopes = np.stack([place.slopes(text, 1, share) for share in shares])
        wanted = (_WEIGHTS / 2) @ slopes
        subject.expect_values(wanted[1:-1], subject(place, [text])[0], text, "the integral by quadrature")


@rule(claims=["input_x_gradient"], after=["linear_model"])
def input_x_gradient(subject: Subject) -> None:
    """Each score is the word's vector times the gradient there."""
    place = subject.known(PRODUCT)
    for text in TEXTS:
        wanted = place.slopes(text, 1)[1:-1]
        subject.expect_values(wanted, subject(place, [text])[0], text, "the derivative in closed form")


def _value(place: Situation, words: list[str]) -> float:
    return place.value(" ".join(words), 1)


def _alone(place: Situation, text: str) -> list[float]:
    return [_value(place, [word]) for word in text.split()]


def _shapley(place: Situation, text: str) -> Floats:
    """By the formula: over all sets of other words, in reading order."""
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
