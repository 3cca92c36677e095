import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr

from troth.core.errors import TrothError
from troth.metrics import formulas

nan = float("nan")
probabilities = st.floats(0.0, 1.0)


def same(value, expected):
    np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)


# Erasing once


def test_plain_differences_keep_their_sign():
    same(formulas.comprehensiveness(0.9, 0.3), 0.6)
    same(formulas.comprehensiveness(0.3, 0.9), -0.6)
    same(formulas.sufficiency(0.9, 0.8), 0.1)
    same(formulas.sufficiency(0.8, 0.9), -0.1)


def test_log_odds_by_hand():
    same(formulas.log_odds(0.8, 0.2), math.log(0.25))
    same(formulas.log_odds([0.5, 0.5], [[0.25, 0.5], [0.5, 1.0]]), [[-math.log(2), 0], [0, math.log(2)]])
    assert formulas.log_odds(0.5, 0.0) == -math.inf
    same(formulas.log_odds(math.log(0.8), math.log(0.2), logs_given=True), math.log(0.25))


@pytest.mark.parametrize(
    ("p_full", "p_erased", "expected"),
    [
        (0.75, 0.5, 0.25),
        (0.75, [0.5, 0.25, 0.0], [0.25, 0.5, 0.75]),  # one example, three ratios
        ([0.75, 0.5], [0.5, 0.25], [0.25, 0.25]),  # two examples, no ratio axis
        ([0.75, 0.5], [[0.5, 0.25, 0.0], [0.5, 0.0, 1.0]], [[0.25, 0.5, 0.75], [0.0, 0.5, -0.5]]),
        ([0.75, 0.5], [[0.5, 0.25], [0.5, 0.0]], [[0.25, 0.5], [0.0, 0.5]]),  # square: examples still come first
        ([[0.75], [0.5]], [[0.5, 0.25], [0.5, 0.0]], [[0.25, 0.5], [0.0, 0.5]]),
        ([], np.zeros((0, 5)), np.zeros((0, 5))),
    ],
)
def test_shapes(p_full, p_erased, expected):
    for formula in (formulas.comprehensiveness, formulas.sufficiency):
        value = formula(p_full, p_erased)
        assert np.shape(value) == np.shape(expected)
        same(value, expected)


def test_scalars_give_plain_floats():
    assert type(formulas.comprehensiveness(np.float32(0.75), np.float64(0.5))) is float
    assert type(formulas.normalized_sufficiency(0.9, 0.5, 0.1)) is float
    assert type(formulas.aopc([0.1, 0.2])) is float
    assert type(formulas.racu([0, 1], [1, 0], [1, 0])) is float
    assert type(formulas.decision_flip([0, 1], [0, 1])) is float
    assert type(formulas.sparsity([1, 2], 0.5)) is float


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(TrothError, match=r"\(3,\) does not fit \(2, 3\)"):  # numpy would broadcast along the ratios
        formulas.comprehensiveness([0.1, 0.2, 0.3], np.zeros((2, 3)))
    with pytest.raises(TrothError, match="does not fit"):
        formulas.normalized_sufficiency([0.1, 0.2], np.zeros((2, 3)), np.zeros(3))


def test_normalized_scores_by_hand():
    # S0 = 1 - (0.9 - 0.5) = 0.6; S = 1 - (0.9 - 0.8) = 0.9: NS = 0.3 / 0.4, NC = 0.1 / 0.4
    same(formulas.normalized_sufficiency(0.9, 0.8, 0.5), 0.75)
    same(formulas.normalized_comprehensiveness(0.9, 0.8, 0.5), 0.25)
    # A rationale that beats the full text counts as keeping all of it.
    same(formulas.normalized_sufficiency(0.9, 0.95, 0.5), 1.0)
    same(formulas.normalized_comprehensiveness(0.9, 0.95, 0.5), 0.0)
    # Worse than the empty input: below 0 and above 1, not clipped.
    same(formulas.normalized_sufficiency(0.9, 0.3, 0.5), -0.5)
    same(formulas.normalized_comprehensiveness(0.9, 0.3, 0.5), 1.5)


def test_normalized_scores_are_undefined_where_the_empty_input_predicts_as_well():
    for p_zero in (0.9, 0.95):
        assert math.isnan(formulas.normalized_sufficiency(0.9, 0.8, p_zero))
        assert math.isnan(formulas.normalized_comprehensiveness(0.9, 0.8, p_zero))


def test_normalized_scores_of_many_examples():
    p_full, p_zero = [0.9, 0.8], [0.5, 0.8]
    kept = [[0.8, 0.7, 0.9], [0.1, 0.2, 0.3]]
    same(formulas.normalized_sufficiency(p_full, kept, p_zero), [[0.75, 0.5, 1.0], [nan, nan, nan]])
    same(formulas.normalized_comprehensiveness(p_full, kept, p_zero), [[0.25, 0.5, 0.0], [nan, nan, nan]])


def test_released_normalized_sufficiency_nudges_and_clips():
    # S0 = 0.6 - 0.0001, S = 0.9
    same(formulas.normalized_sufficiency(0.9, 0.8, 0.5, variant="released"), (0.9 - 0.5999) / (1 - 0.5999))
    assert formulas.normalized_sufficiency(0.9, 0.1, 0.5, variant="released") == 0
    # S0 = 1 - 0.0001: a loss of 0.00005 leaves half
    same(formulas.normalized_sufficiency(0.5, 0.49995, 0.6, variant="released"), 0.5)


def test_released_normalized_comprehensiveness_nudges_and_clips():
    same(formulas.normalized_comprehensiveness(0.9, 0.8, 0.5, variant="released"), 0.25)
    assert formulas.normalized_comprehensiveness(0.9, 0.3, 0.5, variant="released") == 1
    value = formulas.normalized_comprehensiveness([0.9, 0.9], [0.3, 0.9], [0.9, 0.9], variant="released")
    assert value.tolist() == [0, 0]
    assert not np.signbit(value).any()


def test_unknown_variant_is_named():
    with pytest.raises(TrothError, match="'relased'"):
        formulas.aopc([0.1], variant="relased")


@given(probabilities, probabilities, probabilities)
def test_normalized_scores_follow_the_equations(p_full, p_part, p_zero):
    # Exact rational arithmetic, written as in the paper.
    full, part, zero = Fraction(p_full), Fraction(p_part), Fraction(p_zero)
    s, s0 = 1 - max(Fraction(0), full - part), 1 - max(Fraction(0), full - zero)
    sufficient = formulas.normalized_sufficiency(p_full, p_part, p_zero)
    comprehensive = formulas.normalized_comprehensiveness(p_full, p_part, p_zero)
    if s0 == 1:
        assert math.isnan(sufficient)
        assert math.isnan(comprehensive)
    elif 1 - s0 > Fraction(1, 10**6):  # below, the rounding of p - p weighs more than 1e-9
        assert sufficient == pytest.approx(float((s - s0) / (1 - s0)), rel=1e-9, abs=1e-9)
        assert comprehensive == pytest.approx(float((1 - s) / (1 - s0)), rel=1e-9, abs=1e-9)


def test_aopc_by_hand():
    same(formulas.aopc([0.1, 0.2, 0.3, 0.4, 0.5]), 0.3)
    same(formulas.aopc([0.1, 0.2, 0.3, 0.4, 0.5], variant="released"), 1.5 / 6)
    same(formulas.aopc([[0.0, 1.0], [nan, 1.0]]), [0.5, nan])
    assert math.isnan(formulas.aopc([]))
    assert math.isnan(formulas.aopc([], variant="released"))


# Erasing step by step


def test_areas_by_hand():
    ratios, explained, random = [0, 0.5, 1], [1.0, 0.4, 0.2], [1.0, 0.8, 0.2]
    # random − explained = 0, 0.4, 0: two triangles of base 0.5 and height 0.4
    same(formulas.acu(ratios, explained, random), 0.2)
    # random − last = 0.8, 0.6, 0: 0.5 · 0.7 + 0.5 · 0.3 = 0.5
    same(formulas.racu(ratios, explained, random), 0.4)


def test_areas_follow_the_equation_on_uneven_steps():
    generator = np.random.default_rng(0)
    ratios = np.sort(generator.random(11))
    explained, random = generator.random((2, 3, 11)), -np.sort(-generator.random((3, 11)))
    random[2] = random[2][::-1]  # rises: no room, undefined
    acu, racu = np.empty((2, 3)), np.empty((2, 3))
    for i, j in np.ndindex(2, 3):
        p, b = explained[i, j], random[j]
        top = sum((ratios[k + 1] - ratios[k]) / 2 * (b[k] - p[k] + b[k + 1] - p[k + 1]) for k in range(10))
        low = sum((ratios[k + 1] - ratios[k]) / 2 * (b[k] - b[10] + b[k + 1] - b[10]) for k in range(10))
        acu[i, j], racu[i, j] = top, top / low if low > 0 else nan
    same(formulas.acu(ratios, explained, random), acu)
    same(formulas.racu(ratios, explained, random), racu)
    assert np.isfinite(racu).tolist() == [[True, True, False]] * 2


def test_racu_is_one_for_an_explanation_that_drops_at_once_and_nan_without_room():
    ratios = np.arange(11) / 10
    random = np.linspace(1, 0.5, 11)
    at_once = np.full(11, 0.5)
    same(formulas.racu(ratios, at_once, random), 1.0)
    assert math.isnan(formulas.racu(ratios, at_once, np.full(11, 0.5)))  # denominator 0
    assert math.isnan(formulas.racu(ratios, at_once, random[::-1]))  # denominator negative


def test_racu_clips_only_when_asked():
    ratios, explained, random = [0, 1], [[0.0, 0.0], [3.0, 3.0]], [1.0, 0.5]
    # room 0.25; areas 0.75 and −2.25
    same(formulas.racu(ratios, explained, random), [3, -9])
    same(formulas.racu(ratios, explained, random, clip=True), [1, -1])


def test_bad_curves_are_refused():
    with pytest.raises(TrothError, match="rise"):
        formulas.acu([0, 0.5, 0.5], [1, 1, 1], [1, 1, 1])
    with pytest.raises(TrothError, match="3 ratios"):
        formulas.racu([0, 0.5, 1], [1, 1], [1, 1, 1])


def test_decision_flip_by_hand():
    ratios = [0, 0.1, 0.4, 1.0]
    assert formulas.decision_flip(ratios, [1, 1, 0, 1]) == 0.4
    assert formulas.decision_flip(ratios, [1, 0, 0, 1]) == 0.1
    assert formulas.decision_flip(ratios, [1, 1, 1, 1]) == 1.0
    assert formulas.decision_flip([0, 0.1, 0.6], [1, 1, 1]) == 1.0  # stopped early without a flip
    assert formulas.decision_flip(ratios, ["yes", "yes", "no", "no"]) == 0.4
    by_example = formulas.decision_flip([[0, 0.5, 1], [0, 0.25, 1]], [[2, 0, 0], [1, 0, 0]])
    assert by_example.tolist() == [0.5, 0.25]


def test_decision_flip_refuses_a_curve_without_the_full_input():
    with pytest.raises(TrothError, match="begin with 0"):
        formulas.decision_flip([0.1, 0.2], [1, 0])
    with pytest.raises(TrothError, match="differ in length"):
        formulas.decision_flip([0, 0.2], [1, 0, 0])


@given(st.lists(st.integers(0, 2), min_size=1, max_size=12))
def test_decision_flip_is_the_first_change(predictions):
    ratios = [step / 12 for step in range(len(predictions))]
    expected = next((r for r, c in zip(ratios, predictions, strict=True) if c != predictions[0]), 1.0)
    assert formulas.decision_flip(ratios, predictions) == expected


def test_monotonicity_by_hand():
    same(formulas.monotonicity([0.1, 0.3, 0.2, 0.2, 0.9]), 0.75)
    assert formulas.monotonicity([0.1, 0.3, 0.2], every=True) == 0.0
    assert formulas.monotonicity([0.1, 0.3, 0.3], every=True) == 1.0
    assert math.isnan(formulas.monotonicity([0.1]))
    same(formulas.monotonicity([[0.1, 0.2], [0.2, 0.1], [nan, 0.1]]), [1, 0, nan])


def test_importance_correlation_matches_scipy():
    generator = np.random.default_rng(1)
    scores, p_erased = generator.normal(size=(4, 9)), generator.random((4, 9))
    expected = [pearsonr(one, 0.9 - left).statistic for one, left in zip(scores, p_erased, strict=True)]
    same(formulas.importance_correlation(scores, p_erased), expected)


def test_importance_correlation_is_higher_for_the_right_order_and_undefined_for_a_constant():
    same(formulas.importance_correlation([3, 2, 1], [0.1, 0.2, 0.3]), 1.0)
    same(formulas.importance_correlation([1, 2, 3], [0.1, 0.2, 0.3]), -1.0)
    assert math.isnan(formulas.importance_correlation([0.1, 0.1, 0.1], [0.1, 0.2, 0.3]))
    assert math.isnan(formulas.importance_correlation([0.1], [0.3]))
    assert math.isnan(formulas.importance_correlation([], []))


# Explanation against random


def test_diagnosticity_by_hand():
    explained, random = [0.5, 0.4, 0.3, nan, 0.9], [0.1, 0.4, 0.6, 0.2, nan]
    same(formulas.diagnosticity(explained, random, True), 1 / 3)
    explained = [0.5, 0.4, 0.3, 0.2]
    assert formulas.diagnosticity(explained, [0.1, 0.4, 0.6, 0.3], True) == 0.25
    assert formulas.diagnosticity(explained, [0.1, 0.4, 0.6, 0.3], False) == 0.5
    assert math.isnan(formulas.diagnosticity([nan], [0.1], True))
    assert math.isnan(formulas.diagnosticity([], [], True))


def test_diagnosticity_pools_explainers_against_one_random_explanation_an_example():
    assert formulas.diagnosticity([[0.5, 0.5], [0.1, 0.3]], [0.2, 0.3], True) == 0.5


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, nan]), st.sampled_from([0.0, 0.5, 1.0, nan]))))
def test_diagnosticity_is_the_share_of_defined_pairs_that_is_won(pairs):
    explained, random = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    defined = [pair for pair in pairs if not any(map(math.isnan, pair))]
    for higher, won in ((True, [a > b for a, b in defined]), (False, [a < b for a, b in defined])):
        expected = sum(won) / len(won) if won else nan
        np.testing.assert_equal(formulas.diagnosticity(explained, random, higher), expected)


# The explanation alone


def test_agreement_with_humans_is_at_hand_here():
    assert formulas.token_f1([0.9, 0.1, 0.8, 0.2], [1, 1, 0, 0], 2) == 0.5  # tests/test_agreement.py has the rest


def test_sparsity_by_hand():
    scores = [-4, 1, 2, 3]  # |scores| sorted: 4 3 2 1, total 10
    same(formulas.sparsity(scores, [0, 0.25, 0.3, 0.5, 0.99, 1]), [0, 0.4, 0.4, 0.7, 0.9, 1])
    same(formulas.sparsity(scores, [0, 0.25, 1], variant="released"), [0.4, 0.7, 1])
    assert math.isnan(formulas.sparsity([0, 0], 0.5))
    assert math.isnan(formulas.sparsity([], 0.5))
    same(formulas.top_share(scores, [0, 1, 2, 10]), [0, 0.4, 0.7, 1])
    with pytest.raises(TrothError, match="from 0 to 1"):
        formulas.sparsity(scores, [20])


def test_sparsity_counts_exactly():
    for basis_points in range(0, 10001, 100):
        for units in (10, 30, 47, 100):
            expected = (units * basis_points // 10000) / units
            same(formulas.sparsity(np.ones(units), basis_points / 10000), expected)
