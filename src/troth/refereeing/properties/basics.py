"""That there is an answer, always the same one to a question, and to the question that was asked."""

import numpy as np

from troth.refereeing import rule
from troth.refereeing.known import LINEAR, PRODUCT, Game
from troth.refereeing.situations import tiny
from troth.refereeing.subject import DoesNotApplyError, Subject, ViolationError

TEXT = "not very good film plot"
CLASSES = "good film bad"


def answers(subject: Subject) -> None:
    """A plain text gets one finite score per token, word or span."""
    refused = []
    for place in (tiny(), subject.known(PRODUCT)):
        for text in ("good film", TEXT):
            try:
                (came,) = subject(place, [text])
            except DoesNotApplyError as error:
                refused.append(error)
                break
            if not all(came.scored):
                missing = [word for word, scored in zip(came.words, came.scored, strict=True) if not scored]
                raise ViolationError("a score for every word", f"none for {', '.join(missing)}", text)
    if len(refused) == 2:
        raise refused[0]


@rule(after=["answers"])
def repeatable(subject: Subject) -> None:
    """Asked twice from the same state of the random generators, it answers the same."""
    place = tiny()
    (first,), (second,) = subject(place, [TEXT]), subject(place, [TEXT])
    if not (abs(first.scores - second.scores) <= 1e-6 * abs(first.scores).max()).all():
        raise ViolationError(f"{first} (as the first time)", str(second), TEXT)


@rule(unless=["model_free"])
def asks_this_model(subject: Subject) -> None:
    """Two models with other weights are explained differently: the model that is passed is the one explained."""
    first, second = tiny(), tiny(seed=1)
    (one,), (other,) = subject(first, [TEXT]), subject(second, [TEXT])
    if subject.same(one.scores, other.scores):
        raise ViolationError("other scores for a model with other weights", f"{one} for both", TEXT)
    (again,) = subject(tiny(), [TEXT])
    subject.expect_same(one, again, TEXT, "as before the second model was explained")


@rule(unless=["class_free"])
def class_asked_about(subject: Subject) -> None:
    """The scores are those of the class asked about, predicted or not."""
    place = subject.known(LINEAR)
    by_class = [subject(place, [CLASSES], target)[0] for target in range(3)]
    if subject.same(by_class[0].scores, by_class[1].scores):
        raise ViolationError("other scores for another class", f"{by_class[1]} for both", CLASSES)
    values = [
        np.array([place.scale * LINEAR.words.get(word, (0.0, 0.0, 0.0))[target] for word in CLASSES.split()])
        for target in range(3)
    ]
    for target, came in enumerate(by_class):
        others = [other for other in range(3) if other != target and subject.same(values[other], came.scores)]
        if others:
            raise ViolationError(f"the scores of class {target}", f"{came}, those of class {others[0]}", CLASSES)


@rule(unless=["class_free"], after=["class_asked_about"])
def one_label_of_several(subject: Subject) -> None:
    """In a multi-label model a label's scores do not depend on the other labels: sigmoid, not softmax."""
    louder = Game({word: (first, second, 3 * third + 1) for word, (first, second, third) in LINEAR.words.items()}, {})
    (wanted,), (came,) = (subject(subject.known(game, multi_label=True), [CLASSES]) for game in (LINEAR, louder))
    subject.expect_same(wanted, came, CLASSES, "as before another label's weights changed")
