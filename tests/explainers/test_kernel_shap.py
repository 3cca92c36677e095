from itertools import product
from math import comb

import numpy as np
import pytest
import torch
from tests.explainers.referees import explained, questions

import troth
from fakes import Lookup, encoder, planted
from troth.core.draws import Draws
from troth.core.errors import TrothError
from troth.engine.prober import Prober
from troth.explainers.exact_shapley import ExactShapley
from troth.explainers.kernel_shap import KernelShap, constrained, weighted_coalitions
from troth.maskings.mask_token import MaskToken


def test_by_hand():
    model = Lookup({"good film": [0, 5], "[M] film": [0, 1], "good [M]": [0, 2], "[M] [M]": [0, 0]})
    (attribution,) = troth.explain(model, "good film", "kernel_shap", target=1, against=0)
    # good: ½ (2 − 0) + ½ (5 − 1) = 3; film: ½ (1 − 0) + ½ (5 − 2) = 2.
    assert attribution.scores == pytest.approx([3, 2], abs=1e-5)


def test_the_constrained_regression_against_lagrange():
    """Minimise Σ w (y − zφ)² with Σφ = total, by its own linear system of first-order conditions."""
    random = np.random.default_rng(0)
    coalitions = (random.random((40, 6)) < 0.5).astype(float)
    gains, weights, total = random.normal(size=40), random.random(40), 1.7
    moments = coalitions.T @ (weights[:, None] * coalitions)
    system = np.block([[moments, np.ones((6, 1))], [np.ones((1, 6)), np.zeros((1, 1))]])
    expected = np.linalg.solve(system, [*(coalitions.T @ (weights * gains)), total])[:6]
    found = constrained(*(torch.from_numpy(given) for given in (coalitions, gains, weights)), total)
    assert found.numpy() == pytest.approx(expected)


@pytest.mark.parametrize("of", ["logit", "log_probability"])
def test_with_all_coalitions_it_is_the_shapley_value(of):
    texts = ["good", "a film", "a good film , not a", "not a bad book , but the plot was dull"]
    asked = questions(texts=texts)
    for one, other in zip(explained(KernelShap(2**10, of=of), asked), explained(ExactShapley(of), asked), strict=True):
        assert one.scores == pytest.approx(other.scores, abs=1e-5)


@pytest.mark.parametrize(
    ("players", "samples"), [(2, 2), (5, 30), (7, 50), (10, 1000), (12, 100), (30, 400), (60, 101)]
)
def test_coalitions_and_their_weights(players, samples):
    plan = weighted_coalitions(players, samples, Draws(3))
    coalitions, weights = plan.coalitions, plan.weights.numpy()
    sizes = coalitions.sum(1)
    assert len(coalitions) <= samples
    assert sizes.min() >= 1
    assert sizes.max() <= players - 1
    # Each with its complement, equally weighted.
    weight_of = {}
    for row, weight in zip(coalitions.numpy(), weights, strict=True):
        weight_of[row.tobytes()] = weight_of.get(row.tobytes(), 0) + weight
    for row in coalitions.numpy():
        assert weight_of[row.tobytes()] == pytest.approx(weight_of[(~row).tobytes()])
    assert weights.sum() == pytest.approx(sum(1 / (size * (players - size)) for size in range(1, players)))
    if samples >= 4 * players:  # the outermost sizes are there whole, with exactly their own mass
        assert int((sizes == 1).sum()) == int((sizes == players - 1).sum()) == players
        assert weights[sizes == 1].sum() == pytest.approx(1 / (players - 1))
    if samples >= 2**players - 2:
        assert len(weight_of) == 2**players - 2
        assert weights == pytest.approx([1 / (comb(players, s) * s * (players - s)) for s in sizes.tolist()])
    if samples >= 8 * players:
        assert len(weight_of) > 0.9 * samples or len(weight_of) == 2**players - 2  # the budget is spent


def test_every_coalition_is_drawn_as_often_as_its_size_says():
    """Also those that differ in the first player only: they are not taken for one."""
    plan = weighted_coalitions(8, 240, Draws(3), whole_within=42)  # size 1 and 7 whole, the rest drawn
    assert len(plan.whole) == 16
    sizes = plan.drawn.sum(1)
    draws = plan.counts.sum()
    mass = {size: (1 if size == 4 else 2) / (size * (8 - size)) for size in (2, 3, 4)}
    for size, share in mass.items():
        expected = draws * share / sum(mass.values())
        assert float(plan.counts[sizes == size].sum()) == pytest.approx(float(expected), abs=4 * float(expected) ** 0.5)
    first = plan.drawn[:, 0]
    # A player is in as many coalitions of a size as every other: 2/8 of size 2, 3/8 of size 3, a half of size 4.
    expected = sum(float(plan.counts[sizes == size].sum()) * size / 8 for size in mass)
    assert float(plan.counts[first].sum()) == pytest.approx(expected, abs=4 * expected**0.5)
    assert int((sizes == 2).sum()) == comb(8, 2)
    assert int((sizes == 3).sum()) > 0.85 * comb(8, 3)


def test_sampled_it_comes_near_and_stays_complete():
    (question,) = questions(texts=["not a bad book , but the plot was dull"])
    (exact,) = explained(ExactShapley(), [question])
    errors = {}
    for samples in (30, 120, 480):
        runs = [
            explained(KernelShap(samples), [type(question)(question.encoding, 1, seed=seed)])[0] for seed in range(10)
        ]
        for run in runs:
            assert run.scores.sum() == pytest.approx(exact.scores.sum(), abs=1e-5)
        errors[samples] = float(np.sqrt(np.mean([(run.scores - exact.scores) ** 2 for run in runs])))
        mean = np.mean([run.scores for run in runs], axis=0)
        spread = np.std([run.scores for run in runs], axis=0) / np.sqrt(10)
        assert (np.abs(mean - exact.scores) < 5 * spread + 1e-3).all()
    assert errors[30] > errors[120] > errors[480]
    assert errors[480] < 0.1 * np.abs(exact.scores).max()


def test_it_asks_what_it_says():
    prober = Prober(encoder())
    (question,) = questions(texts=["why would anyone pay for this ? nobody should ! is the film good ?"])
    prober.ask(KernelShap(200).ask([question]))[0]
    assert 190 <= prober.cost.forward <= 202


def test_what_is_erased_already_does_not_play():
    (question,) = questions(texts=["a good film , honestly"])
    question = question.erased(torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0]), MaskToken())
    (one,), (other,) = explained(KernelShap(), [question]), explained(ExactShapley(), [question])
    assert one.scores == pytest.approx(other.scores, abs=1e-5)


def test_the_planted_word_comes_first():
    text = "the soup was cold , the service awful , the bill absurd and why would anyone pay for this"
    (attribution,) = troth.explain(planted("awful"), text, "kernel_shap(samples=300)", target=1)
    assert attribution.units[int(attribution.scores.argmax())] == "awful"


def test_few_samples_still_give_an_answer():
    (question,) = questions(texts=["a good film , honestly"])
    for samples, seed in product((2, 3, 5), range(3)):
        (attribution,) = explained(KernelShap(samples), [type(question)(question.encoding, 1, seed=seed)])
        assert np.isfinite(attribution.scores).all()
    with pytest.raises(TrothError, match="samples must be at least 2, not 1"):
        KernelShap(samples=1)
