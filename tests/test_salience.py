import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import chi2

from troth.core.errors import TrothError
from troth.salience import ChiSquared, TfIdf, fit_salience, normalize, text_rank, uniform

texts = st.lists(st.sampled_from("abcdefgh"), max_size=25)


def graph_of(tokens, window):
    graph = networkx.Graph()
    graph.add_nodes_from(tokens)
    for i, token in enumerate(tokens):
        graph.add_edges_from((token, other) for other in tokens[i + 1 : i + window] if other != token)
    return graph


def test_text_rank_by_hand():
    # a – b – c: after one step b has 0.15 + 0.85·(1/1 + 1/1), its neighbors 0.15 + 0.85·1/2
    np.testing.assert_allclose(text_rank(["a", "b", "c"], window=2, steps=1), [0.575, 1.85, 0.575])
    # second step, from those values: a gets half of b, b all of a and c
    np.testing.assert_allclose(
        text_rank(["a", "b", "c"], window=2, steps=2), [0.15 + 0.85 * 0.925, 0.15 + 0.85 * 1.15, 0.15 + 0.85 * 0.925]
    )


def test_text_rank_counts_a_link_once_and_links_no_type_to_itself():
    # "a b a b": one link; "a a": none
    assert text_rank(["a", "b", "a", "b"], steps=3).tolist() == [1, 1, 1, 1]
    np.testing.assert_allclose(text_rank(["a", "a"]), [0.15, 0.15])
    np.testing.assert_allclose(text_rank(["a"]), [0.15])
    assert text_rank([]).shape == (0,)


def test_text_rank_window_reaches_three_tokens_by_default():
    tokens = ["a", "b", "c", "d", "e"]
    degree = networkx.degree(graph_of(tokens, 4))
    assert dict(degree) == {"a": 3, "b": 4, "c": 4, "d": 4, "e": 3}
    # one step from 1: 0.15 + 0.85 Σ 1 / degree of the neighbors
    expected = [0.15 + 0.85 * s for s in (3 / 4, 2 / 3 + 2 / 4, 2 / 3 + 2 / 4, 2 / 3 + 2 / 4, 3 / 4)]
    np.testing.assert_allclose(text_rank(tokens, steps=1), expected)


@given(texts, st.integers(1, 6), st.floats(0.1, 0.95), st.integers(0, 12))
def test_text_rank_follows_the_equation(tokens, window, damping, steps):
    graph = graph_of(tokens, window)
    scores = dict.fromkeys(graph, 1.0)
    for _ in range(steps):
        new = {i: (1 - damping) + damping * sum(scores[j] / graph.degree(j) for j in graph[i]) for i in graph}
        moved = sum(abs(new[i] - scores[i]) for i in graph)
        scores = new
        if moved < 1e-5:
            break
    np.testing.assert_allclose(text_rank(tokens, window, damping, steps), [scores[t] for t in tokens], atol=1e-5)


def test_text_rank_is_page_rank_where_every_node_has_a_link():
    tokens = list("abracadabra alakazam")
    graph = graph_of(tokens, 4)
    rank = networkx.pagerank(graph, alpha=0.85, tol=1e-12)
    expected = [rank[token] * len(graph) for token in tokens]  # PageRank sums to 1, ours to the number of types
    np.testing.assert_allclose(text_rank(tokens, steps=500), expected, atol=1e-5)


def test_text_rank_stops_at_the_last_step_or_when_nothing_moves():
    tokens = list("abcdabefgahc")
    assert text_rank(tokens, steps=0).tolist() == [1] * 12
    settled = text_rank(tokens, steps=1000)
    assert settled.tolist() == text_rank(tokens, steps=10_000).tolist()
    assert text_rank(tokens, steps=1).tolist() != settled.tolist()
    with pytest.raises(TrothError, match="not 0"):
        text_rank(tokens, window=0)


TRAINING = [["good", "film", "good"], ["bad", "film"], ["good", "plot"], [], ["bad", "bad", "end"]]
LABELS = [1, 0, 1, 0, 0]


def test_tf_idf_is_scikit_learns():
    vectorizer = TfidfVectorizer(analyzer=lambda tokens: tokens).fit(TRAINING)
    salience = TfIdf.fit(TRAINING)
    tokens = ["bad", "film", "unseen", "bad"]
    row = vectorizer.transform([tokens]).toarray()[0]
    expected = [row[vectorizer.vocabulary_[token]] if token in vectorizer.vocabulary_ else 0 for token in tokens]
    np.testing.assert_allclose(salience(tokens), expected)
    assert salience(["unseen"]).tolist() == [0]
    assert salience([]).shape == (0,)


def test_chi_squared_is_scikit_learns():
    vectorizer = TfidfVectorizer(analyzer=lambda tokens: tokens)
    features = vectorizer.fit_transform(TRAINING)
    statistic, _ = chi2(features, LABELS)
    scores = ChiSquared.fit(TRAINING, LABELS)(["film", "good", "unseen", "good"])
    names = vectorizer.vocabulary_
    expected = [statistic[names["film"]], statistic[names["good"]], 0, statistic[names["good"]]]
    np.testing.assert_allclose(scores, expected)
    assert scores[1] > scores[0]  # "good" gives the class away, "film" does not


def test_a_vocabulary_of_one():
    assert TfIdf.fit([["so"], ["so", "so"]])(["so", "so"]).tolist() == [1, 1]
    assert ChiSquared.fit([["so"], ["so"]], [0, 1])(["so"]).tolist() == [0]


def test_fit_salience_by_name():
    assert fit_salience("text_rank", TRAINING) is text_rank
    assert fit_salience("uniform", TRAINING)(["a", "b"]).tolist() == uniform(["a", "b"]).tolist() == [1, 1]
    assert fit_salience("tf_idf", TRAINING) == TfIdf.fit(TRAINING)
    assert fit_salience("chi_squared", TRAINING, LABELS) == ChiSquared.fit(TRAINING, LABELS)
    with pytest.raises(TrothError, match=r"'tfidf'.*did you mean tf_idf"):
        fit_salience("tfidf", TRAINING)


def test_what_cannot_be_fitted_is_named():
    with pytest.raises(TrothError, match="there are none"):
        TfIdf.fit([[], []])
    with pytest.raises(TrothError, match="one label for each of the 5"):
        ChiSquared.fit(TRAINING)
    with pytest.raises(TrothError, match="one label for each of the 5"):
        ChiSquared.fit(TRAINING, [1, 0])


def test_normalize_by_hand():
    np.testing.assert_allclose(normalize([1, 3, 0]), [0.25, 0.75, 2.5e-9], rtol=1e-7)
    assert normalize([0, 0, 0, 0]).tolist() == [0.25] * 4
    assert normalize([]).shape == (0,)
    with pytest.raises(TrothError, match="magnitudes"):
        normalize([1, -1])


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_normalize_gives_a_distribution_without_zeros(scores):
    salience = normalize(scores)
    assert salience.sum() == pytest.approx(1)
    assert (salience > 0).all()
