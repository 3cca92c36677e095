import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, f1_score

from troth.core.errors import TrothError
from troth.metrics import _agreement as agreement


def same(value, expected):
    np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)


def test_token_f1_by_hand():
    scores, rationale = [0.9, 0.1, 0.8, 0.2], [1, 1, 0, 0]
    assert agreement.token_counts(scores, rationale, 3) == (1, 2, 1)
    assert agreement.token_f1(scores, rationale, 2) == 0.5
    same(agreement.token_f1(scores, rationale, 1), 2 / 3)
    same(agreement.token_f1(scores, rationale, 25), 2 / 3)  # all four: precision 1/2, recall 1
    assert agreement.token_f1(scores, rationale, 0) == 0
    assert math.isnan(agreement.token_f1(scores, [0, 0, 0, 0], 2))
    assert math.isnan(agreement.token_f1([], [], 2))


def test_token_f1_gives_ties_to_the_earlier_unit():
    assert agreement.token_f1([0.5, 0.5, 0.5], [1, 0, 0], 1) == 1
    assert agreement.token_f1([0.5, 0.5, 0.5], [0, 0, 1], 1) == 0


def test_token_f1_refuses_what_does_not_match():
    with pytest.raises(TrothError, match="one value per unit"):
        agreement.token_f1([0.5, 0.5], [1], 1)
    with pytest.raises(TrothError, match="negative"):
        agreement.token_f1([0.5, 0.5], [1, 0], -1)


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=20), st.integers(0, 25))
def test_token_f1_matches_scikit_learn(units, top):
    scores, rationale = [unit[0] for unit in units], [int(unit[1]) for unit in units]
    best = sorted(range(len(scores)), key=lambda place: (-scores[place], place))[:top]
    chosen = [int(place in best) for place in range(len(scores))]
    value = agreement.token_f1(scores, rationale, top)
    if any(rationale):
        same(value, f1_score(rationale, chosen, zero_division=0))
    else:
        assert math.isnan(value)


def test_auprc():
    # Precision at each hit, from the top: 1/1 and 2/3
    same(agreement.auprc([0.9, 0.8, 0.7, 0.1], [1, 0, 1, 0]), (1 + 2 / 3) / 2)
    # The curve through (0, 1), (1/2, 1), (1/2, 1/2), (1, 2/3): 1/2 and a trapezoid
    same(agreement.auprc([0.9, 0.8, 0.7, 0.1], [1, 0, 1, 0], rule="trapezoid"), 0.5 + 0.5 * (1 / 2 + 2 / 3) / 2)
    generator = np.random.default_rng(2)
    scores, rationale = generator.integers(0, 9, 50), generator.integers(0, 2, 50)
    same(agreement.auprc(scores, rationale), average_precision_score(rationale, scores))
    assert math.isnan(agreement.auprc([0.9, 0.8], [0, 0]))
    with pytest.raises(TrothError, match="'step'"):
        agreement.auprc([0.9, 0.8], [0, 1], rule="step")


def test_intersection_over_union_by_hand():
    # (0, 4) on (1, 4): 3/4; (8, 10) on (9, 12): 1/4; precision 1/2, recall 1/3
    predicted, rationale = [(0, 4), (8, 10)], [(1, 4), (9, 12), (20, 21)]
    assert agreement.intersection_over_union_counts(predicted, rationale) == (1, 2, 3)
    assert agreement.intersection_over_union_counts(predicted, rationale, threshold=0.25) == (2, 2, 3)
    assert agreement.intersection_over_union_counts([(0, 2)], [(0, 4)]) == (1, 1, 1)  # exactly half counts
    assert agreement.intersection_over_union_counts([], [(0, 4)]) == (0, 0, 1)


spans = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 5)).map(lambda pair: (pair[0], sum(pair))), max_size=6)


@given(spans, spans.filter(bool))
def test_intersection_over_union_follows_eraser(predicted, rationale):
    # Best overlap of each distinct predicted span, by sets of units.
    best = [
        max(len(set(range(*p)) & set(range(*t))) / len(set(range(*p)) | set(range(*t))) for t in rationale)
        for p in set(predicted)
    ]
    matched = sum(overlap >= 0.5 for overlap in best)
    assert agreement.intersection_over_union_counts(predicted, rationale) == (matched, len(best), len(set(rationale)))


def test_spans_of():
    assert agreement.spans_of([0, 1, 1, 0, 1]) == [(1, 3), (4, 5)]
    assert agreement.spans_of([1, 1]) == [(0, 2)]
    assert agreement.spans_of([0, 0]) == []
    assert agreement.spans_of([]) == []
