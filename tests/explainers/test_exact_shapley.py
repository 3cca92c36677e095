from itertools import combinations, permutations
from math import factorial

import numpy as np
import pytest
import torch
from captum.attr import ShapleyValues
from tests.explainers.referees import explained, questions, value

import troth
from fakes import Lookup, encoder, planted
from troth.core.errors import TrothError
from troth.explainers.exact_shapley import ExactShapley, all_coalitions, shapley_weights
from troth.maskings.mask_token import MaskToken


def test_by_hand():
    # A black box's logits are log-probabilities; against the other class the softmax's normalization cancels out.
    model = Lookup({"good film": [0, 5], "[M] film": [0, 1], "good [M]": [0, 2], "[M] [M]": [0, 0]})
    (attribution,) = troth.explain(model, "good film", "exact_shapley", target=1, against=0)
    # good: ½ (2 − 0) + ½ (5 − 1) = 3; film: ½ (1 − 0) + ½ (5 − 2) = 2.
    assert attribution.scores == pytest.approx([3, 2], abs=1e-5)
    assert attribution.signed


def slow(values, count):
    """φᵢ = Σ_S |S|! (n − |S| − 1)! / n! (v(S ∪ i) − v(S)), as it is printed."""
    scores = []
    for player in range(count):
        others = [other for other in range(count) if other != player]
        scores.append(
            sum(
                factorial(size) * factorial(count - size - 1) / factorial(count)
                * (values(frozenset(chosen) | {player}) - values(frozenset(chosen)))
                for size in range(count)
                for chosen in combinations(others, size)
            )
        )  # fmt: skip
    return scores


@pytest.mark.parametrize("count", [1, 2, 5])
def test_weights_against_the_printed_formula(count):
    random = np.random.default_rng(count)
    coalitions = all_coalitions(count)
    numbers = random.normal(size=len(coalitions))
    of_set = {frozenset(np.flatnonzero(row)): number for row, number in zip(coalitions, numbers, strict=True)}
    assert shapley_weights(coalitions).T.numpy() @ numbers == pytest.approx(slow(of_set.__getitem__, count))


@pytest.mark.parametrize("of", ["logit", "probability"])
def test_on_a_random_model(of):
    model = encoder()
    (question,) = questions(texts=["a good film , honestly"])
    (attribution,) = explained(ExactShapley(of), [question])

    def kept(units):
        return value(model, question, [unit for unit in range(5) if unit not in units], of)

    assert attribution.scores == pytest.approx(slow(kept, 5), abs=1e-5)
    # Efficiency.
    assert attribution.scores.sum() == pytest.approx(kept(range(5)) - kept([]), abs=1e-5)


def test_it_is_the_mean_over_all_orders():
    model = encoder()
    (question,) = questions(texts=["the book was better"])
    (attribution,) = explained(ExactShapley(), [question])
    gains = np.zeros(4)
    for order in permutations(range(4)):
        for place, unit in enumerate(order):
            gains[unit] += value(model, question, order[place + 1 :]) - value(model, question, order[place:])
    assert attribution.scores == pytest.approx(gains / 24, abs=1e-5)


def test_against_captum():
    model = encoder()
    (question,) = questions(texts=["the book was better"])
    encoding = question.encoding
    baseline = torch.where(encoding.units >= 0, model.mask_id, encoding.ids)[None]
    # Captum plays with the special tokens too; as they never change they are dummies and move nobody's value.
    expected = ShapleyValues(lambda ids: model.model(input_ids=ids).logits).attribute(
        encoding.ids[None], baseline, target=1, feature_mask=torch.where(encoding.units < 0, 4, encoding.units)[None]
    )
    (attribution,) = explained(ExactShapley(), [question])
    for unit in range(question.n_units):
        found = expected[0, encoding.units == unit][0]
        assert attribution.scores[unit] == pytest.approx(float(found), abs=1e-5)


def test_what_is_erased_already_does_not_play():
    (question,) = questions(texts=["a good film , honestly"])
    base = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0])
    (attribution,) = explained(ExactShapley(), [question.erased(base, MaskToken())])
    model = encoder()
    left = [0, 2, 3]

    def kept(players):
        return value(model, question, [unit for unit in range(5) if unit not in {left[player] for player in players}])

    assert attribution.scores[left] == pytest.approx(slow(kept, 3), abs=1e-5)
    assert not attribution.scores[[1, 4]].any()


def test_twelve_units_at_most():
    model = troth.load_model(planted("awful"))
    (attribution,) = troth.explain(model, "a b c d e f g h i j k awful", "exact_shapley(of=probability)", target=1)
    assert attribution.scores == pytest.approx([0] * 11 + [0.8], abs=1e-6)
    with pytest.raises(TrothError, match="at most 12 units; example 0 has 13: use kernel_shap"):
        troth.explain(model, "a b c d e f g h i j k l awful", "exact_shapley")
