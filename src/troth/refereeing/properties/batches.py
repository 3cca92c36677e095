"""That a text's scores do not depend on what else is in the batch, on padding, or on the side of the padding."""

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
    """A text gets the same scores alone and next to another one of its length."""
    _alone_as_together(subject, tiny(), [SHORT, "dull plot"], "as alone")


@rule(unless=["corpus"], after=["same_length_batch"])
def repeated_text(subject: Subject) -> None:
    """A text that a batch holds twice gets the same scores both times."""
    place, text = tiny(), "good film plot"
    (wanted,) = subject(place, [text])
    for came in subject(place, [text, text, "dull film cast"])[:2]:
        subject.expect_same(wanted, came, text, "as alone", place)


@rule(unless=["corpus"], after=["same_length_batch"])
def batch_order(subject: Subject) -> None:
    """The results stand in the order of the texts, whichever text is longest."""
    place = tiny()
    texts = ["good film plot", "dull cast film", "bad film"]
    _in_order(subject(place, texts), texts)
    _in_order(subject(place, texts[::-1]), texts[::-1])
    _alone_as_together(subject, place, ["good film", "dull film", "bad film"], "the texts in this order")
    _alone_as_together(subject, place, ["bad film", "dull film", "good film"], "the texts in this order")


@rule(unless=["corpus"], after=["same_length_batch", "batch_order"])
def padded_right(subject: Subject) -> None:
    """A text gets the same scores alone and padded on the right, next to a longer one."""
    for place, texts in ((tiny(), [SHORT, LONG]), (tiny("roberta"), [SHORT, LONG]), (embedded(), list(REAL))):
        _alone_as_together(subject, place, texts, f"as without padding; {place.name}")


@rule(unless=["class_free"], after=["same_length_batch", "batch_order", "padded_right"])
def padded_left(subject: Subject) -> None:
    """A text gets the same scores alone and padded on the left, where its tokenizer pads there."""
    place = subject.known(with_token(PRODUCT, "[PAD]", (1, -0.5, 0.5)))
    place.tokenizer.padding_side = "left"
    _alone_as_together(subject, place, [SHORT, LONG], "as without padding")


@rule(unless=["class_free"], after=["padded_right"])
def padding_id(subject: Subject) -> None:
    """Padding is known by the attention mask or the tokenizer's id for it, which need not be 0; here 0 is a word."""
    wanted = subject(subject.known(PRODUCT), [SHORT])[0]
    for texts in ([SHORT], [SHORT, LONG]):
        came = subject(subject.known(PRODUCT, partial(wordpiece, words_first=True)), texts)[0]
        subject.expect_same(wanted, came, SHORT, "as where the padding id is 0")


def _alone_as_together(subject: Subject, place: Situation, texts: Sequence[str], because: str) -> None:
    together = subject(place, texts)
    for text, came in zip(texts, together, strict=True):
        (wanted,) = subject(place, [text])
        subject.expect_same(wanted, came, text, because, place)


def _in_order(came: Sequence[WordScores], texts: Sequence[str]) -> None:
    for text, scores in zip(texts, came, strict=True):
        if not all(scores.scored):
            raise ViolationError("a score for every word of the text", str(scores), text)
