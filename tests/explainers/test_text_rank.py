import networkx
import numpy as np
import pytest
import torch
from tests.explainers.referees import explained, questions

import troth
from fakes import encoder, planted, tokenizer_for
from troth import salience
from troth.core.errors import TrothError
from troth.explainers.text_rank import TextRank
from troth.maskings.mask_token import MaskToken


def test_by_hand():
    # A chain good – film – bad: film has degree 2. One step: 0.5 + 0.5 · (½) for the ends, 0.5 + 0.5 · 2 for film.
    attribution = troth.explain(encoder(), "good film bad", "text_rank(window=2, damping=0.5, steps=1)")[0]
    assert attribution.scores == pytest.approx([0.75, 1.5, 0.75])
    assert not attribution.signed


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
def test_pieces_are_summed_into_words(family):
    model, tokenizer = encoder(family), tokenizer_for(family)
    text = "unlovable films , a good film and a good book"
    for units in ("word", "token", "sentence"):
        (attribution,) = troth.explain(model, text, "text_rank", units=units)
        encoding = attribution.question.encoding
        pieces = tokenizer.tokenize(text)
        expected = np.zeros(encoding.n_units)
        for unit, score in zip(encoding.units[1:-1].tolist(), salience.text_rank(pieces), strict=True):
            expected[unit] += score
        assert attribution.scores == pytest.approx(expected)
        assert attribution.rest == 0


def test_settled_it_is_page_rank():
    text = "the soup was cold , the service awful , the bill absurd"
    (attribution,) = troth.explain(encoder(), text, "text_rank(steps=500)")
    words = text.split()
    graph = networkx.Graph()
    for place, word in enumerate(words):
        graph.add_edges_from((word, other) for other in words[place + 1 : place + 4] if other != word)
    expected = networkx.pagerank(graph, alpha=0.85, tol=1e-12, max_iter=1000)
    # PageRank sums to 1, TextRank to the number of types.
    assert attribution.scores == pytest.approx([len(expected) * expected[word] for word in words], abs=1e-4)


def test_the_second_text_links_the_words_of_the_first():
    model, tokenizer = encoder(), tokenizer_for("bert")
    (attribution,) = troth.explain(model, ("good film", "bad film"), "text_rank")
    nodes = [*tokenizer.tokenize("good film"), "[SEP]", *tokenizer.tokenize("bad film")]
    scores = salience.text_rank(nodes)
    assert attribution.scores == pytest.approx(scores[:2])
    assert attribution.rest == pytest.approx(scores[2:].sum())


def test_a_black_box_has_words_for_pieces():
    text = "a good film and a good book"
    (attribution,) = troth.explain(planted(), text, "text_rank")
    assert attribution.scores == pytest.approx(salience.text_rank(text.split()))


def test_what_is_erased_is_no_longer_in_the_text():
    (question,) = questions(texts=["a good film and a book"])
    base = torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    (attribution,) = explained(TextRank(), [question.erased(base, MaskToken())])
    scores = salience.text_rank(["a", "film", "and", "a", "book"])
    assert attribution.scores == pytest.approx([scores[0], 0, *scores[1:]])


def test_bad_options():
    with pytest.raises(TrothError, match="window must be at least 1, not 0"):
        TextRank(window=0)
    with pytest.raises(TrothError, match=r"damping must lie in \[0, 1\], not 2"):
        TextRank(damping=2)
