"""A text's scores do not depend on the rest of its batch, on padding or on the padding side."""

from collections.abc import Sequence
from functools import partial

from troth.refereeing import rule
from troth.refereeing.known import PRODUCT, with_token
from troth.refereeing.reading import WordScores
from troth.refereeing.situations import Situation, embedded, tiny
from troth.refereeing.subject import Subject, ViolationError
from troth.refereeing.tokenizers import wordpiece

SHORT, LONG = "good film", "not very good film and a dull plot"
REAL = ("a dull film", "the cast is wonderful , but the plot was not good")


@rule(unless=["corpus"])
def same_length_batch(subject: Subject) -> None:
    """A text gets the same scores alone and in a batch with a text of the same length."""
    _alone_as_together(subject, tiny(), [SHORT, "dull plot"], "as alone")


@rule(unless=["corpus"], after=["same_length_batch"])
def repeated_text(subject: Subject) -> None:
    """A text that occurs twice in a batch gets the same scores both times."""
    place, text = tiny(), "good film plot"
    (wanted,) = subject(place, [text])
    for got in subject(place, [text, text, "dull film cast"])[:2]:
        subject.expect_same(wanted, got, text, "as alone", place)


@rule(unless=["corpus"], after=["same_length_batch"])
def batch_order(subject: Subject) -> None:
    """Results are returned in the order of the texts, whichever text is longest."""
    place = tiny()
    texts = ["good film plot", "dull cast film", "bad film"]
    _in_order(subject(place, texts), texts)
    _in_order(subject(place, texts[::-1]), texts[::-1])
    _alone_as_together(subject, place, ["good film", "dull film", "bad film"], "the texts in this order")
    _alone_as_together(subject, place, ["bad film", "dull film", "good film"], "the texts in this order")


@rule(unless=["corpus"], after=["same_length_batch", "batch_order"])
def padded_right(subject: Subject) -> None:
    """A text gets the same scores alone and in a batch in which it is padded on the right."""
    for place, texts in ((tiny(), [SHORT, LONG]), (tiny("roberta"), [SHORT, LONG]), (embedded(), list(REAL))):
        _alone_as_together(subject, place, texts, f"as without padding; {place.name}")


@rule(unless=["class_free"], after=["same_length_batch", "batch_order", "padded_right"])
def padded_left(subject: Subject) -> None:
    """A text gets the same scores alone and in a batch in which its tokenizer pads it on the left."""
    place = subject.known(with_token(PRODUCT, "[PAD]", (1, -0.5, 0.5)))
    place.tokenizer.padding_side = "left"
    _alone_as_together(subject, place, [SHORT, LONG], "as without padding")


@rule(unless=["class_free"], after=["padded_right"])
def padding_id(subject: Subject) -> None:
    """Padding is recognized where the padding id is not 0 (here, id 0 is a word)."""
    wanted = subject(subject.known(PRODUCT), [SHORT])[0]
    for texts in ([SHORT], [SHORT, LONG]):
        got = subject(subject.known(PRODUCT, partial(wordpiece, words_first=True)), texts)[0]
        subject.expect_same(wanted, got, SHORT, "as where the padding id is 0")


def _alone_as_together(subject: Subject, place: Situation, texts: Sequence[str], because: str) -> None:
    together = subject(place, texts)
    for text, got in zip(texts, together, strict=True):
        (wanted,) = subject(place, [text])
        subject.expect_same(wanted, got, text, because, place)


def _in_order(got: Sequence[WordScores], texts: Sequence[str]) -> None:
    for text, scores in zip(texts, got, strict=True):
        if not all(scores.scored):
            raise ViolationError("a score for every word of the text", str(scores), text)
