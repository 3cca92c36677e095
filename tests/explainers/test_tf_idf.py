import math

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from tests.explainers.referees import questions

import troth
from fakes import encoder, planted, tokenizer_for
from troth.core import catalog
from troth.core.errors import TrothError
from troth.engine.prober import Prober
from troth.explainers.tf_idf import TfIdf
from troth.maskings.mask_token import MaskToken


def test_by_hand():
    # Two texts: film stands in both, idf 1 + ln(3/3) = 1; good and book in one, 1 + ln(3/2).
    first, second = troth.explain(encoder(), ["good film", "film book film"], "tf_idf")
    rare = 1 + math.log(1.5)
    assert first.scores == pytest.approx(np.array([rare, 1]) / math.hypot(rare, 1))
    assert second.scores == pytest.approx(np.array([2, rare, 2]) / math.hypot(2, rare))
    assert not first.signed


def test_against_scikit_learn_over_word_pieces():
    tokenizer = tokenizer_for("bert")
    texts = ["unlovable films , a good film", "a good book and a dull film", "why ?"]
    vectorizer = TfidfVectorizer(analyzer=tokenizer.tokenize)
    table = vectorizer.fit_transform(texts).toarray()
    for row, attribution in enumerate(troth.explain(encoder(), texts, "tf_idf", units="token")):
        expected = [table[row, vectorizer.vocabulary_[piece]] for piece in tokenizer.tokenize(texts[row])]
        assert attribution.scores == pytest.approx(expected)
    for row, attribution in enumerate(troth.explain(encoder(), texts, "tf_idf", units="sentence")):
        expected = sum(table[row, vectorizer.vocabulary_[piece]] for piece in tokenizer.tokenize(texts[row]))
        assert attribution.scores.sum() == pytest.approx(expected)


def test_what_it_is_fitted_on_is_no_option():
    asked = questions(texts=["good film", "film book film"])
    fitted = TfIdf().prepare(Prober(encoder()), [question.encoding for question in asked])
    assert catalog.spec(fitted, full=True) == "tf_idf"
    assert fitted == TfIdf()
    assert hash(fitted) == hash(TfIdf())
    with pytest.raises(TrothError, match="fitted on the data given"):
        Prober(encoder()).ask(TfIdf().ask([asked[0]]))[0]


def test_what_is_erased_is_no_longer_in_the_text():
    asked = questions(texts=["good film", "film book film"])
    prober = Prober(encoder())
    fitted = TfIdf().prepare(prober, [question.encoding for question in asked])
    attribution = prober.ask(fitted.ask([asked[1].erased(torch.tensor([0.0, 1.0, 1.0]), MaskToken())]))[0]
    rare = 1 + math.log(1.5)
    assert attribution.scores == pytest.approx(np.array([0, rare, 1]) / math.hypot(rare, 1))


def test_a_black_box_and_empty_texts():
    first, _ = troth.explain(planted(), ["good film", "film book film"], "tf_idf")
    assert first.scores == pytest.approx(np.array([1 + math.log(1.5), 1]) / math.hypot(1 + math.log(1.5), 1))
    (nothing,) = troth.explain(encoder(), "", "tf_idf")
    assert len(nothing.scores) == 0
