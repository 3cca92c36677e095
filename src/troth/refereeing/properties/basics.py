"""Every text gets scores, they are repeatable, and they explain the model and the class that were passed."""

import numpy as np

from troth.refereeing import rule
from troth.refereeing.known import LINEAR, PRODUCT, Game
from troth.refereeing.situations import tiny
from troth.refereeing.subject import DoesNotApplyError, Subject, ViolationError

TEXT = "not very good film plot"
CLASSES = "good film bad"


def answers(subject: Subject) -> None:
    """Every word of a plain text gets a finite score."""
    refused = []
    for place in (tiny(), subject.known(PRODUCT)):
        for text in ("good film", TEXT):
            try:
                (got,) = subject(place, [text])
            except DoesNotApplyError as error:
                refused.append(error)
                break
            if not all(got.scored):
                missing = [word for word, scored in zip(got.words, got.scored, strict=True) if not scored]
                raise ViolationError("a score for every word", f"none for {', '.join(missing)}", text)
    if len(refused) == 2:
        raise refused[0]


@rule(after=["answers"])
def repeatable(subject: Subject) -> None:
    """Two calls with the same random seed return the same scores."""
    place = tiny()
    (first,), (second,) = subject(place, [TEXT]), subject(place, [TEXT])
    if not (abs(first.scores - second.scores) <= 1e-6 * abs(first.scores).max()).all():
        raise ViolationError(f"{first} (as in the first call)", str(second), TEXT)


@rule(unless=["model_free"])
def asks_this_model(subject: Subject) -> None:
    """Models with different weights get different scores: the model that is passed is explained."""
    first, second = tiny(), tiny(seed=1)
    (one,), (other,) = subject(first, [TEXT]), subject(second, [TEXT])
    if subject.same(one.scores, other.scores):
        raise ViolationError("different scores for a model with different weights", f"{one} for both", TEXT)
    (again,) = subject(tiny(), [TEXT])
    subject.expect_same(one, again, TEXT, "as before the second model was explained")


@rule(unless=["class_free"])
def class_asked_about(subject: Subject) -> None:
    """The scores explain the class that was asked for, whether or not the model predicts it."""
    place = subject.known(LINEAR)
    by_class = [subject(place, [CLASSES], target)[0] for target in range(3)]
    if subject.same(by_class[0].scores, by_class[1].scores):
        raise ViolationError("different scores for a different class", f"{by_class[1]} for both", CLASSES)
    values = [
        np.array([place.scale * LINEAR.words.get(word, (0.0, 0.0, 0.0))[target] for word in CLASSES.split()])
        for target in range(3)
    ]
    for target, got in enumerate(by_class):
        others = [other for other in range(3) if other != target and subject.same(values[other], got.scores)]
        if others:
            raise ViolationError(f"the scores of class {target}", f"{got}, those of class {others[0]}", CLASSES)


@rule(unless=["class_free"], after=["class_asked_about"])
def one_label_of_several(subject: Subject) -> None:
    """In a multi-label model, a label's scores do not depend on the other labels (sigmoid, not softmax)."""
    louder = Game({word: (first, second, 3 * third + 1) for word, (first, second, third) in LINEAR.words.items()}, {})
    (wanted,), (got,) = (subject(subject.known(game, multi_label=True), [CLASSES]) for game in (LINEAR, louder))
    subject.expect_same(wanted, got, CLASSES, "as before another label's weights changed")
