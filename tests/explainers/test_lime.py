import numpy as np
import pytest
import torch
from captum._utils.models.linear_model import SkLearnRidge
from captum.attr import LimeBase
from sklearn.linear_model import Lasso, Ridge
from sklearn.metrics import pairwise_distances
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.explainers.referees import explained, questions, value

import troth
from fakes import Lookup, encoder, planted
from troth.core.draws import Draws
from troth.core.errors import TrothError
from troth.explainers._regression import sparse
from troth.explainers.lime import Lime, surrogate, thinned
from troth.maskings.mask_token import MaskToken


def test_by_hand():
    # Without ridge a linear model is found exactly, whatever the kernel: the contrast is 1 + 2 · good − 1 · film.
    model = Lookup({"good film": [0, 2], "[M] film": [0, 0], "good [M]": [0, 3], "[M] [M]": [0, 1]})
    (attribution,) = troth.explain(model, "good film", "lime(ridge=0.0, samples=60)", target=1, against=0)
    assert attribution.scores == pytest.approx([2, -1], abs=1e-4)
    assert "standard error" in attribution.note


def test_one_unit_by_hand():
    # Kept once (weight 1), erased twice (distance 100, weight e^(−(100/25)²/2) = e⁻⁸ =: w each).
    model = Lookup({"good": [0, 3], "[M]": [0, 1]})
    (attribution,) = troth.explain(model, "good", "lime(samples=3)", target=1, against=0)
    w = 2 * np.exp(-8)
    moment = w / (1 + w)  # weighted variance of {1, 0} times the sum of the weights
    assert attribution.scores == pytest.approx([moment * 2 / (moment + 1)], rel=1e-4)


def test_samples():
    kept = thinned(Draws(1).uniforms(4000, 6))
    assert kept.shape == (4001, 5)
    assert kept[0].all()
    gone = 5 - kept[1:].sum(1)
    # 1 to 5 units go, all numbers equally often, all units equally often.
    assert torch.bincount(gone, minlength=6).numpy() == pytest.approx([0, 800, 800, 800, 800, 800], abs=5 * 800**0.5)
    assert kept[1:].double().mean(0).numpy() == pytest.approx([0.4] * 5, abs=0.04)


def test_the_surrogate_against_scikit_learn():
    kept = thinned(Draws(2).uniforms(200, 9)).numpy()
    values = np.random.default_rng(0).normal(size=201)
    distances = pairwise_distances(kept.astype(float), kept[:1].astype(float), metric="cosine").ravel() * 100
    for width, alpha in [(25.0, 1.0), (10.0, 0.1)]:
        weights = np.sqrt(np.exp(-(distances**2) / width**2))
        expected = Ridge(alpha=alpha, fit_intercept=True).fit(kept, values, sample_weight=weights).coef_
        found, _ = surrogate(torch.from_numpy(kept).double(), torch.from_numpy(values), width, alpha)
        assert found.numpy() == pytest.approx(expected)


def test_against_captum():
    """Captum's own sampling and kernel differ (Bernoulli ½, no factor 100); given ours, its regression agrees."""
    model = encoder()
    (question,) = questions(texts=["a good film , not a bad book"])
    encoding = question.encoding
    kept = thinned(question.draws("lime").uniforms(79, question.n_units + 1))
    rows = iter(kept)

    def similarity(original, perturbed, interpretable, **_):
        cosine = float(interpretable.float().mean()) ** 0.5
        return np.exp(-((100 * (1 - cosine) / 25) ** 2) / 2)

    lime = LimeBase(
        lambda ids: model.model(input_ids=ids).logits.softmax(-1),
        SkLearnRidge(alpha=1.0),
        similarity_func=similarity,
        perturb_func=lambda original, **_: next(rows)[None].float(),
        perturb_interpretable_space=True,
        from_interp_rep_transform=lambda row, original, **_: torch.where(
            encoding.per_token(row) == 1, original, model.mask_id
        ),
        to_interp_rep_transform=None,
    )
    expected = lime.attribute(encoding.ids[None], target=1, n_samples=80)
    (attribution,) = explained(Lime(samples=80, of="probability"), [question])
    assert attribution.scores == pytest.approx(expected[0].numpy(), abs=1e-5)


def test_the_standard_error_is_what_other_seeds_show():
    (question,) = questions(texts=["a good film , not a bad book"])
    runs = explained(Lime(samples=400), [type(question)(question.encoding, 1, seed=seed) for seed in range(40)])
    shown = np.std([run.scores for run in runs], axis=0).mean()
    said = np.mean([float(run.note.split()[2]) for run in runs])
    assert said == pytest.approx(shown, rel=0.25)


def test_what_is_erased_already_is_no_feature():
    (whole,) = questions(texts=["a good film"])
    question = whole.erased(torch.tensor([1.0, 0.0, 1.0]), MaskToken())
    (attribution,) = explained(Lime(samples=50), [question])
    kept = thinned(question.draws("lime").uniforms(49, 3))
    values = [value(encoder(), whole, [1, *np.array([0, 2])[~row.numpy()]]) for row in kept]
    expected, _ = surrogate(kept.double(), torch.tensor(values, dtype=torch.float64), 25, 1)
    assert attribution.scores == pytest.approx([float(expected[0]), 0, float(expected[1])], abs=1e-5)


def test_the_planted_word_comes_first():
    text = "the soup was cold , the service awful , the bill absurd and why would anyone pay for this"
    (attribution,) = troth.explain(planted("awful"), text, "lime(samples=500)", target=1)
    assert attribution.units[int(attribution.scores.argmax())] == "awful"
    runner_up = np.sort(np.abs(attribution.scores))[-2]
    assert attribution.scores.max() > 3 * runner_up


def test_sparse_by_hand():
    # Columns of ± 1: the Lasso's coefficients are those of least squares, drawn toward 0 by alpha.
    design = torch.tensor([[1.0, 1], [1, 0], [0, 1], [0, 0]], dtype=torch.float64)
    values = 3 * design[:, 0] + 0.1 * design[:, 1]
    # Standardized, the slopes are 1.5 and 0.05; less alpha they are 1.3 and 0; on the old scale twice that.
    assert sparse(design, values, 0.2).numpy() == pytest.approx([2.6, 0.0], abs=1e-6)


def test_sparse_finds_the_planted_units():
    """A linear model of 40 words of which three count: their numbers are found, all others are exactly 0."""
    words = [f"w{number}" for number in range(40)]
    weights = {"w3": 2.0, "w17": -1.5, "w30": 1.0}

    def predict(texts):
        score = [sum(weights.get(word, 0) for word in text.split()) for text in texts]
        return 1 / (1 + np.exp(-np.outer(score, [-1, 1])))

    model = troth.load_model(predict, labels=["no", "yes"], mask_text="_")
    (attribution,) = troth.explain(model, " ".join(words), "lime(samples=64, penalty=l1)", target=1, against=0)
    kept = attribution.question.draws("lime").uniforms(64, 40) < 0.5
    assert kept.double().mean() == pytest.approx(0.5, abs=0.03)
    found = {word: score for word, score in zip(attribution.units, attribution.scores, strict=True) if score}
    assert {word: round(float(score), 1) for word, score in found.items()} == weights
    assert attribution.note == "3 of 40 units have a score, 64 samples"


def test_sparse_against_scikit_learn():
    """As ContextCite writes it: a scaler, then the Lasso, then back to the masks' own scale."""
    (question,) = questions(texts=["a good film , not a bad book"])
    (attribution,) = explained(Lime(samples=64, penalty="l1", alpha=0.02), [question])
    kept = (question.draws("lime").uniforms(64, question.n_units) < 0.5).numpy().astype(float)
    values = [value(encoder(), question, np.flatnonzero(row == 0).tolist()) for row in kept]
    scaler, lasso = StandardScaler(), Lasso(alpha=0.02, random_state=0)
    make_pipeline(scaler, lasso).fit(kept, values)
    assert attribution.scores == pytest.approx(lasso.coef_ / scaler.scale_, abs=1e-4)
    assert 0 < np.count_nonzero(attribution.scores) < question.n_units


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.1}, "alpha belongs to penalty=l1"),
        ({"penalty": "l1", "alpha": 0.0}, "alpha must be above 0, not 0.0"),
        ({"penalty": "l1", "ridge": 0.0}, "kernel_width and ridge belong to penalty=l2"),
        ({"penalty": "l1", "tolerance": 0.1}, "no standard errors to stop by"),
        ({"tolerance": -1.0}, "tolerance must be above 0 .* not -1.0"),
        ({"samples": 1}, "samples must be at least 2, not 1"),
        ({"kernel_width": 0.0}, "kernel_width must be above 0, not 0.0"),
        ({"ridge": -1.0}, "ridge must be 0 or more, not -1.0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(TrothError, match=message):
        Lime(**options)
