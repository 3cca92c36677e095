"""Any callable from texts to probabilities: asked with the right texts, refused by name what it has not."""

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import fakes
import troth
from troth.core.errors import TrothError
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import Probe
from troth.maskings.delete import Delete
from troth.maskings.mask_token import MaskToken

TEXTS = ["a good film", "a bad film", "good good book", "bad soup", "a good phone", "the bad bill"]


class Recorder:
    """Answers the same to everything and keeps what it was asked."""

    def __init__(self, answer=(0.25, 0.75)):
        self.answer, self.asked = answer, []

    def __call__(self, texts):
        self.asked += texts
        return [self.answer] * len(texts)


def asked(text, keep, masking, pair=None, segments="first", base=None, base_masking=None):
    """The texts a callable is asked with, in the order of the rows."""
    recorder = Recorder()
    model = troth.load_model(recorder, labels=["no", "yes"])
    (encoding,) = model.encode([Example("0", text, pair)], segments=segments)
    question = Question(encoding, 0, base=None if base is None else torch.tensor(base), erased_by=base_masking)

    def looking(row):
        return (yield Probe(question, torch.tensor([row]), masking))

    for row in keep:
        Prober(model).ask(looking(row))
    return recorder.asked


def test_deleted_words_take_their_white_space_along():
    text = "  Not good,\n really  not. "
    keep = [
        [1.0] * 6,
        [0.0, 1, 1, 1, 1, 1],
        [1.0, 0, 1, 1, 1, 1],
        [1.0, 1, 1, 0, 1, 1],
        [1.0, 1, 1, 1, 0, 0],
        [0.0] * 6,
    ]
    assert asked(text, keep, Delete()) == [
        text,  # what nothing was taken from stays to the letter
        "good,\n really  not. ",
        "  Not,\n really  not. ",
        "  Not good,  not. ",
        "  Not good,\n really ",
        "",
    ]


def test_masked_words_leave_the_rest_to_the_letter():
    text = "  Not good,\n really  not. "
    assert asked(text, [[1.0] * 6, [0.0, 1, 1, 0, 1, 1], [0.0] * 6], MaskToken()) == [
        text,
        "  _ good,\n _  not. ",
        "  _ __\n _  __ ",
    ]


def test_what_was_deleted_before_does_not_come_back_as_a_mask():
    found = asked("a good film here", [[1.0, 1, 0, 1]], MaskToken(), base=[1.0, 0, 1, 1], base_masking=Delete())
    assert found == ["a _ here"]
    found = asked("a good film here", [[1.0, 1, 0, 1]], Delete(), base=[1.0, 0, 1, 1], base_masking=MaskToken())
    assert found == ["a _ here"]


def test_pairs_are_asked_as_pairs_and_the_second_text_is_left_alone():
    assert asked("a good film", [[1.0, 0, 1]], Delete(), pair=" is it ? ") == [("a film", " is it ? ")]
    both = asked("a film", [[0.0, 1, 1, 0, 1]], Delete(), pair="is it ?", segments="both")
    assert both == [("film", "is ?")]
    both = asked("a film", [[0.0, 1, 1, 0, 1]], MaskToken(), pair="is it ?", segments="both")
    assert both == [("_ film", "is _ ?")]


def test_logits_are_logarithms_of_the_probabilities():
    model = troth.load_model(Recorder((0.0, 1.0)), labels=["no", "yes"])
    (attribution,) = troth.explain(model, "a good film", "leave_one_out")
    assert attribution.probabilities == pytest.approx((1e-12, 1.0))
    model = troth.load_model(Recorder((0.2, 0.8)))
    (attribution,) = troth.explain(model, "a good film", "leave_one_out(of=probability)")
    assert attribution.probabilities == pytest.approx((0.2, 0.8))
    assert attribution.labels == ("0", "1")


def fitted(flip=False):
    labels = [text.count("bad") if flip else text.count("good") for text in TEXTS]
    return make_pipeline(CountVectorizer(), LogisticRegression()).fit(TEXTS, np.minimum(labels, 1))


def test_a_scikit_learn_pipeline_itself_or_its_method():
    pipeline = fitted()
    for source in (pipeline, pipeline.predict_proba):
        model = troth.load_model(source)
        (attribution,) = troth.explain(
            model, "a good film", "leave_one_out(of=probability)", target=1, masking="delete"
        )
        full, without = pipeline.predict_proba(["a good film", "a film"])[:, 1]
        assert attribution.scores[1] == pytest.approx(full - without, abs=1e-6)
        assert attribution.labels == ("0", "1")
    named = make_pipeline(CountVectorizer(), LogisticRegression()).fit(TEXTS, ["yes", "no"] * 3)
    assert troth.load_model(named).labels == ("no", "yes")


def test_the_fingerprint_of_a_vectorizer_does_not_depend_on_addresses():
    def fingerprint(stop_words):
        pipeline = make_pipeline(CountVectorizer(stop_words=stop_words), LogisticRegression())
        return troth.load_model(pipeline.fit(TEXTS, ["yes", "no"] * 3)).fingerprint

    one, same, other = ["a", "the"], ["a", "the"], ["a"]
    assert fingerprint(one) == fingerprint(same)
    assert fingerprint(one) != fingerprint(other)


def test_explaining_and_measuring_a_bare_function():
    function = fakes.planted("awful")
    attributions = troth.explain(function, ["the soup was awful", "nice"], "leave_one_out")
    scores = troth.measure(function, attributions, "comprehensiveness(ratio=0.5)")
    assert scores[0].value == pytest.approx(0.8)


def test_fingerprints_tell_callables_apart():
    def one(source):
        return troth.load_model(source).fingerprint

    assert one(fitted()) == one(fitted())
    assert one(fitted()) != one(fitted(flip=True))
    assert one(fitted().predict_proba) != one(fitted(flip=True).predict_proba)
    assert one(fakes.planted("good")) == one(fakes.planted("good"))
    assert one(fakes.planted("good")) != one(fakes.planted("bad"))
    first, second = fitted(), fitted(flip=True)
    assert one(lambda texts: first.predict_proba(texts)) != one(lambda texts: second.predict_proba(texts))
    recorder = Recorder()
    before = one(recorder)
    recorder(["asked before"])
    assert one(recorder) == before  # what it remembers is not what it is
    assert one(recorder) != one(Recorder((0.5, 0.5)))


def test_a_function_with_a_comprehension_is_the_same_in_another_process():
    def compiled(word):  # each time other code objects, as in another process
        names = {}
        exec(f"def predict(texts):\n    return [[0.5, 0.5] for text in texts if '{word}' not in text]", names)
        return troth.load_model(names["predict"]).fingerprint

    assert compiled("good") == compiled("good")
    assert compiled("good") != compiled("bad")


def said(predict, texts="a good film", **options):
    with pytest.raises(TrothError) as caught:
        troth.explain(troth.load_model(predict, **options), texts, "leave_one_out")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def wrong(answer):
    def predict(texts):
        return answer(len(texts))

    return predict


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (lambda n: [0.5] * n, "predict returned, for 1 texts, an array of shape (1,); it must return [texts, classes]"),
        (lambda n: [[0.5, 0.5]] * (n + 1), "predict returned, for 1 texts, an array of shape (2, 2); it must return"),
        (lambda n: [[1.0]] * n, "predict returns one number per text; it must return one probability per class"),
        (lambda n: [[2.0, -1.0]] * n, "predict must return probabilities that sum to 1 for each text, not logits"),
        (lambda n: [[0.9, 0.9]] * n, "predict must return probabilities that sum to 1 for each text, not logits"),
        (lambda n: [[float("nan"), 0.5]] * n, "predict gave NaN or infinite logits for example 0; check its weights"),
        (lambda n: None, "predict returned, for 1 texts, an array of shape (); it must return [texts, classes]"),
        (lambda n: [{"label": "POSITIVE"}] * n, "predict returned something that is not an array of numbers ("),
        (lambda n: [[0.5, 0.5], [1.0]], "predict returned something that is not an array of numbers ("),
        (lambda n: ["yes"] * n, "predict returned something that is not an array of numbers ("),
    ],
)
def test_wrong_answers_are_one_line(answer, line):
    assert said(wrong(answer)).startswith(line)


def test_labels_must_fit():
    assert said(Recorder(), labels=["a", "b", "c"]) == "Recorder returns 2 probabilities, but 3 labels were given"


def test_a_function_that_fails_is_one_line_with_its_own_error_as_the_cause():
    def predict(texts):
        raise ConnectionError("the service is down")

    with pytest.raises(TrothError, match="predict raised ConnectionError: the service is down") as error:
        troth.explain(predict, "a good film", "leave_one_out")
    assert isinstance(error.value.__cause__, ConnectionError)


@pytest.mark.parametrize(
    ("explainer", "masking", "lacks"),
    [
        ("gradient", "mask_token", "word vectors"),
        ("integrated_gradients", "mask_token", "word vectors"),
        ("attention", "mask_token", "attentions or hidden states"),
        ("leave_one_out", "zero", "word vectors"),
        ("leave_one_out", "mix", "word vectors"),
        ("leave_one_out", "soft", "word vectors"),
        ("leave_one_out", "gaussian", "word vectors"),
        ("leave_one_out", "pad", "padding token"),
        ("leave_one_out", "attention", "attention to mask"),
    ],
)
def test_what_it_has_not_is_refused_by_name(explainer, masking, lacks):
    model = troth.load_model(Recorder(), labels=["no", "yes"])
    with pytest.raises(TrothError) as caught:
        troth.explain(model, "a good film", explainer, masking=masking)
    assert str(caught.value) == (
        f"Recorder has no {lacks} (it is a black box); use an explainer that only erases (leave_one_out, lime, "
        "kernel_shap) with masking mask_token or delete"
    )


def test_units_it_can_tell():
    model = troth.load_model(Recorder(), labels=["no", "yes"])
    assert model.encode([Example("0", "A film. It is good.")], "sentence")[0].unit_texts == ("A film.", "It is good.")
    with pytest.raises(
        TrothError, match=r"Recorder has no tokens \(it is a black box\); use units word, sentence or passage"
    ):
        model.encode([Example("0", "a")], "token")
    with pytest.raises(TrothError, match="units must be one of token, word, sentence, passage, or a list"):
        model.encode([Example("0", "a")], "letter")


def test_many_texts_are_one_call():
    calls = []

    def predict(texts):
        calls.append(len(texts))
        return [[0.5, 0.5]] * len(texts)

    troth.explain(troth.load_model(predict, labels=["no", "yes"]), TEXTS, "leave_one_out")
    assert len(calls) == 2  # the whole texts, then all that is left out of them
    assert sum(calls) == len(TEXTS) + sum(len(text.split()) for text in TEXTS)
