import numpy as np
import pytest
import torch
from captum.attr._core.gradient_shap import InputBaselineXGradient
from tests.explainers.referees import Formula, explained, from_vectors, questions, total

import troth
from fakes import encoder
from troth.core.errors import TrothError
from troth.engine.prober import Prober
from troth.explainers.gradient_shap import GradientShap
from troth.explainers.integrated_gradients import IntegratedGradients
from troth.maskings.zero import Zero


def drawn(question, samples):
    coin, place = question.draws("gradient_shap").uniforms(samples, 2).T
    return coin < 0.5, place


def test_by_hand_on_a_linear_model():
    # The gradient is 1 everywhere: a sample adds a word's number if its baseline is zero, nothing if it is the input.
    model = Formula({"good": 3.0, "film": -2.0}, total)
    (attribution,) = troth.explain(model, "good film", "gradient_shap(samples=8)", target=1)
    from_zero = int(drawn(attribution.question, 8)[0].sum())
    assert 0 < from_zero < 8
    assert attribution.scores == pytest.approx([3 * from_zero / 8, -2 * from_zero / 8])
    (attribution,) = troth.explain(model, "good film", "gradient_shap(samples=8)", target=1, seed=5)
    assert attribution.scores[0] == pytest.approx(3 * int(drawn(attribution.question, 8)[0].sum()) / 8)


@pytest.mark.parametrize("family", ["bert", "distilbert"])
@pytest.mark.parametrize("baseline", ["zero", "mask"])
def test_against_captum_with_the_same_draws(family, baseline, monkeypatch):
    model = encoder(family)
    asked = questions(family, units="token")[:2]
    samples = 9
    ours = explained(GradientShap(samples, baseline=baseline, of="log_probability"), asked, model)
    for question, attribution in zip(asked, ours, strict=True):
        forward, vectors = from_vectors(model, question, lambda logits: logits.log_softmax(-1))
        reference = vectors.clone()
        travels = question.encoding.units >= 0
        reference[0, travels] = 0 if baseline == "zero" else model.embedding_matrix[model.mask_id].detach()
        from_reference, places = drawn(question, samples)
        baselines = torch.where(from_reference[:, None, None], reference, vectors)
        # Captum's place on the way is a plain np.random.uniform call.
        monkeypatch.setattr(np.random, "uniform", lambda low, high, size, places=places: places.numpy())
        expected = InputBaselineXGradient(forward).attribute(
            vectors.expand(samples, -1, -1), baselines, target=question.target
        )
        assert attribution.scores == pytest.approx(expected.mean(0).sum(-1)[travels].detach().numpy(), abs=1e-5)


@pytest.mark.parametrize("moves", ["units", "all"])
def test_its_expectation_is_half_of_integrated_gradients(moves):
    asked = questions()[:2]
    path = explained(IntegratedGradients(30, rule="gauss_legendre", moves=moves), asked)
    samples = 3000
    for question, whole in zip(asked, path, strict=True):
        (sampled,) = explained(GradientShap(samples, moves=moves), [question])
        parts = [
            explained(GradientShap(100, moves=moves), [type(question)(question.encoding, 1, seed=seed)])[0]
            for seed in range(1, 21)
        ]
        error = np.std([part.scores for part in parts], axis=0) * np.sqrt(100 / samples)
        assert (np.abs(sampled.scores - whole.scores / 2) < 4 * error).all()
        assert np.abs(whole.scores).max() > 10 * error.max()  # so the bound means something
        if moves == "all":
            rest = np.std([part.rest for part in parts]) * np.sqrt(100 / samples)
            assert abs(sampled.rest - whole.rest / 2) < 4 * rest


def test_baselines_that_are_the_input_cost_nothing():
    (question,) = questions(texts=["a good film"])
    prober = Prober(encoder())
    prober.ask(GradientShap(samples=50).ask([question]))[0]
    assert prober.cost.backward == int(drawn(question, 50)[0].sum()) < 50


def test_what_is_erased_already_scores_nothing():
    (question,) = questions(texts=["a good film"])
    (attribution,) = explained(GradientShap(), [question.erased(torch.tensor([1.0, 0.0, 1.0]), Zero())])
    assert attribution.scores[1] == 0
    assert (attribution.scores[[0, 2]] != 0).all()


def test_bad_options():
    with pytest.raises(TrothError, match="samples must be at least 1, not 0"):
        GradientShap(samples=0)
