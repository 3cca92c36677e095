"""The scores belong to the right words, whatever the text and the tokenizer are like."""

from collections.abc import Callable, Sequence

from troth.refereeing import rule, tokenizers
from troth.refereeing.known import LINEAR, PAIR, PRODUCT, Game
from troth.refereeing.reading import WordScores, words_of
from troth.refereeing.situations import Situation, Text, tiny
from troth.refereeing.subject import DoesNotApplyError, Subject, ViolationError, refuse

_SAID = ("trunc", "long", "max", "exceed")
_NOTHING = ("empty", "no word", "no token", "nothing", "blank")


@rule(unless=["class_free"], after=["linear_model"])
def one_word(subject: Subject) -> None:
    """A text of one word gets a score for that word."""
    _right(subject, subject.known(LINEAR), "good")


def empty_text(subject: Subject) -> None:
    """An empty text gets no scores, or an error that says that the text is empty."""
    try:
        (got,) = subject(tiny(), [""])
    except ViolationError as error:
        if not _is_said(error, _NOTHING):
            raise
    else:
        if len(got.scores):
            raise ViolationError("no scores", str(got), "")


@rule(unless=["class_free"])
def long_text(subject: Subject) -> None:
    """If a text is too long for the model, the words that are cut off get no score, or a warning says so."""
    text = " ".join(["film"] * (tokenizers.LONGEST + 4) + ["good"])
    try:
        (got,) = subject(subject.known(LINEAR), [text])
    except ViolationError as error:
        if not _is_said(error, _SAID) or "index out of range" in error.got:
            raise ViolationError("a shorter explanation, or an error that says so", error.got, text) from None
        return
    said = any(sign in warning.lower() for warning in subject.warned for sign in _SAID)
    if sum(got.scored) > tokenizers.LONGEST and not said:
        wanted = f"scores for at most {tokenizers.LONGEST} words, or a warning"
        raise ViolationError(wanted, f"{sum(got.scored)} scored words", text)


@rule(unless=["class_free"], after=["linear_model"])
def repeated_words(subject: Subject) -> None:
    """A word that occurs several times gets a score at each position."""
    for text in ("good good", "good film good bad good"):
        _right(subject, subject.known(LINEAR), text)


@rule(unless=["class_free"], after=["linear_model"])
def word_pieces(subject: Subject) -> None:
    """A word of several tokens and the words after it get their own scores."""
    for text in ("unlovable film", "good unlovable bad"):
        _right(subject, subject.known(LINEAR), text)


@rule(unless=["class_free"], after=["linear_model"])
def letters(subject: Subject) -> None:
    """Capital letters, accents, punctuation and unusual white space do not shift scores to other words."""
    for text in ("Good film", "Café good", "GOOD     bad .", "bad film.\n\t\n\tGood !"):
        _right(subject, subject.known(LINEAR), text)


@rule(unless=["class_free"], after=["linear_model"])
def bytes_of_words(subject: Subject) -> None:
    """With byte-level tokens, several of which may share a character (emoji), each word gets its own score."""
    for text in ("good film", "the 🙂 good", "bad ünïcode 🙂🙂 good"):
        _right(subject, subject.known(LINEAR, tokenizers.byte_level), text)


@rule(unless=["class_free"], after=["linear_model"])
def begin_token_only(subject: Subject) -> None:
    """A tokenizer that adds a token at the beginning and none at the end, like Llama's, is supported."""
    for text in ("film good", "film was good"):
        _right(subject, subject.known(LINEAR, tokenizers.begin_only), text)


@rule(unless=["model_free"])
def begin_token_once(subject: Subject) -> None:
    """The model never reads a text with two beginning-of-text tokens."""
    for place in _with_begin(subject):
        text = "not very good"
        subject(place, [text])
        begin = _begin(place)
        twice = next((row.ids for row in place.model.read if row.ids.count(begin) > 1), None)
        if twice is not None:
            raise ViolationError("one beginning-of-text token", " ".join(_tokens(place, twice)), text)


@rule(unless=["model_free"], after=["begin_token_once", "bytes_of_words"])
def whole_text_read(subject: Subject) -> None:
    """The model reads the text as its tokenizer encodes it, including the special tokens."""
    for place in [*_with_begin(subject), subject.known(PRODUCT, tokenizers.byte_level)]:
        # The byte-level tokens of one emoji share their offsets.
        text = "the 🙂 good" if "Ġthe" in place.reader.get_vocab() else "not very good"
        subject(place, [text])
        wanted, erased = tuple(place.ids(text)["input_ids"]), _erased(subject, place)
        if not any(_is_row(row.ids, wanted, erased) for row in place.model.read):
            rows = sorted({row.ids for row in place.model.read}, key=lambda row: (-len({*row} & {*wanted}), len(row)))
            got = " ".join(_tokens(place, rows[0])) if rows else "the model was never called"
            raise ViolationError(" ".join(_tokens(place, wanted)), got, text)


@rule(unless=["model_free"], after=["whole_text_read"])
def token_types(subject: Subject) -> None:
    """A model with token type ids gets the ones that its tokenizer returns."""
    place = subject.known(PAIR)
    for text in ("not very good", ("the good film", "bad plot")):
        encoded = place.ids(text)
        wanted = tuple(encoded["input_ids"]), tuple(encoded["token_type_ids"])
        place.model.read.clear()
        try:
            subject(place, [text])
        except DoesNotApplyError:
            if isinstance(text, str):
                raise
            continue
        rows = [row.types for row in place.model.read if _is_row(row.ids, wanted[0])]
        if rows and not any((types or (0,) * len(wanted[1])) == wanted[1] for types in rows):
            raise ViolationError(_joined(wanted[1]), _joined(rows[0] or (0,) * len(wanted[1])), text)


@rule(claims=["linear"], after=["class_asked_about"])
def special_tokens(subject: Subject) -> None:
    """The effect of special tokens is not credited to the words."""
    text = "good film bad"
    (wanted,) = subject(subject.known(LINEAR), [text])
    louder = Game({**LINEAR.words, "[CLS]": (3, 2, -1), "[SEP]": (1, 1, 2)}, {})
    (got,) = subject(subject.known(louder), [text])
    subject.expect_same(wanted, got, text, "as when [CLS] and [SEP] have no effect")


@rule(unless=["class_free"])
def text_pair(subject: Subject) -> None:
    """The second text of a pair is read as the second: the scores of the first text's words depend on it."""
    place = subject.known(PAIR)
    with_bad, without = (subject(place, [("the good film", second)])[0] for second in ("bad plot", "the plot"))
    if subject.same(with_bad.scores, without.scores):
        got = f"{with_bad} for both"
        raise ViolationError("a different score of 'good' for 'bad plot' and 'the plot'", got, "the good film")


def _right(subject: Subject, place: Situation, text: Text) -> None:
    """The scores are the words' contributions where that is claimed; otherwise every word of letters has a score."""
    (got,) = subject(place, [text])
    missing = [word for word, scored in zip(got.words, got.scored, strict=True) if not scored]
    if any(letter.isalnum() for word in missing for letter in word):  # punctuation need not be scored
        raise ViolationError("a score for every word", f"none for {', '.join(missing)}", text)
    if "linear" in subject.claims:
        subject.expect_values(_added(place, text, got, 1), got, text, "each word's contribution")


def _added(place: Situation, text: Text, got: WordScores, target: int) -> list[float]:
    offsets = place.ids(text)["offset_mapping"]
    owners = place.ids(text).sequence_ids()
    values = []
    for start, end in words_of(text):
        keep = [
            owner == 0 and begin < end and start < stop for (begin, stop), owner in zip(offsets, owners, strict=True)
        ]
        values.append(place.value(text, target, keep))
    return values


def _with_begin(subject: Subject) -> list[Situation]:
    """Models whose tokenizers add a beginning-of-text token, without those that the function does not support."""
    places: list[Situation] = []
    for tokenizer in (tokenizers.wordpiece, tokenizers.begin_only):
        place = subject.known(PRODUCT, tokenizer)
        try:
            subject(place, ["good film"])
        except DoesNotApplyError as error:
            if not places and tokenizer is tokenizers.begin_only:
                refuse(str(error))
            continue
        except ViolationError:  # reported by another property
            continue
        place.model.read.clear()
        places.append(place)
    return places


def _begin(place: Situation) -> int:
    return int(place.ids("good")["input_ids"][0])


def _joined(types: Sequence[int]) -> str:
    return " ".join(map(str, types))


def _is_row(row: Sequence[int], wanted: Sequence[int], erased: Callable[[int, int], bool] | None = None) -> bool:
    """Whether a row is the wanted one; interpolated embeddings (-1) match every token, and `erased` allows for more."""
    return len(row) == len(wanted) and all(
        got in (number, -1) or (erased is not None and erased(number, got))
        for got, number in zip(row, wanted, strict=True)
    )


def _erased(subject: Subject, place: Situation) -> Callable[[int, int], bool] | None:
    """A method that samples may never read all words at once; then erased words match, but no special tokens."""
    if not subject.spread:
        return None
    reader = place.reader
    erasing = {reader.mask_token_id, reader.pad_token_id, reader.unk_token_id}
    return lambda number, got: got in erasing and number not in reader.all_special_ids


def _tokens(place: Situation, ids: Sequence[int]) -> list[str]:
    return [place.reader.convert_ids_to_tokens(number) if number >= 0 else "?" for number in ids]


def _is_said(error: ViolationError, signs: Sequence[str]) -> bool:
    return error.got.startswith("it raised") and any(sign in error.got.lower() for sign in signs)
