import numpy as np
import pytest
import torch

from asking import STRENGTHS, TEXT, TRUTH, Additive, Fixed, attribution, score
from fakes import CORPUS, Lookup, encoder
from troth import explain, measure
from troth.core import draws
from troth.core.errors import TrothError
from troth.metrics.sensitivity import Sensitivity

MODEL = Additive(STRENGTHS)


def test_what_ignores_the_input_is_not_sensitive():
    assert score(MODEL, TEXT, TRUTH, "sensitivity", explainer=Fixed(tuple(TRUTH))).value == 0


def test_the_gradient_of_a_linear_model_does_not_move():
    attributions = explain(MODEL, [TEXT], "gradient")
    assert measure(MODEL, attributions, "sensitivity")[0].value == pytest.approx(0, abs=1e-6)


def moved_vectors(model, given, number, radius):
    """The word vectors of noisy input `number`, written out."""
    encoding = given.question.encoding
    vectors = model.embed(encoding.ids).detach()
    key = torch.tensor([draws.key(0, given.example.id, "sensitivity", number)])
    numbers = draws.uniforms(key, vectors.numel()).view_as(vectors)
    size = vectors.square().mean(-1, keepdim=True).sqrt()
    return torch.where((encoding.units >= 0)[:, None], vectors + radius * size * (2 * numbers - 1), vectors)


def logit(model, given, vectors, target):
    types = given.question.encoding.token_types
    return model.model(inputs_embeds=vectors[None], token_type_ids=types[None]).logits[0, target]


def test_it_is_the_largest_change_over_noisy_inputs_of_a_gradient():
    model = encoder("bert")
    for given, found in zip(
        attributions := explain(model, CORPUS[:2], "gradient", units="token"),
        measure(model, attributions, "sensitivity(samples=3, radius=0.1)"),
        strict=True,
    ):
        changes = []
        for number in range(3):
            vectors = moved_vectors(model, given, number, 0.1).requires_grad_()
            (gradient,) = torch.autograd.grad(logit(model, given, vectors, given.target), vectors)
            again = (gradient @ model.embedding_matrix.T).norm(dim=-1)[1:-1].detach().numpy()
            changes.append(np.linalg.norm(again - given.scores) / np.linalg.norm(given.scores))
        assert found.record["changes"] == pytest.approx(changes, rel=1e-3)
        assert found.value == pytest.approx(max(changes), rel=1e-3)
        assert len(set(changes)) == 3


def test_erasing_explainers_see_the_same_noise_in_every_row():
    model = encoder("bert")
    (given,) = explain(model, CORPUS[:1], "leave_one_out", units="token")
    (found,) = measure(model, [given], "sensitivity(samples=1, radius=0.1)")
    encoding = given.question.encoding
    vectors = moved_vectors(model, given, 0, 0.1)
    mask = model.embed(torch.tensor(model.mask_id)).detach()
    with torch.no_grad():
        full = logit(model, given, vectors, given.target)
        again = []
        for place in range(1, len(encoding.ids) - 1):
            masked = vectors.clone()
            masked[place] = mask
            again.append((full - logit(model, given, masked, given.target)).item())
    assert found.value == pytest.approx(np.linalg.norm(again - given.scores) / np.linalg.norm(given.scores), rel=1e-3)


def test_more_noise_moves_it_more():
    model = encoder("roberta")
    attributions = explain(model, CORPUS, "input_x_gradient")
    small, large = (
        np.mean([one.value for one in measure(model, attributions, f"sensitivity(radius={radius})")])
        for radius in (0.01, 0.2)
    )
    assert 0 < small < large / 5


def test_a_random_explanation_is_most_sensitive():
    model = encoder("bert")
    random, real = (
        np.mean([one.value for one in measure(model, explain(model, CORPUS, name), "sensitivity")])
        for name in ("random", "gradient")
    )
    assert random > 0.5 > real


def test_alone_and_in_company():
    model = encoder("distilbert")
    attributions = explain(model, CORPUS[:3], "gradient")
    together = [one.value for one in measure(model, attributions, "sensitivity")]
    alone = [measure(model, [one], "sensitivity")[0].value for one in attributions]
    assert together == pytest.approx(alone, rel=1e-3)


def test_undefined_and_errors():
    assert score(MODEL, TEXT, [0] * 5, "sensitivity", explainer="random").why == "all scores are 0"
    assert score(MODEL, "", [], "sensitivity", explainer="random").why == "the text has no units"
    with pytest.raises(TrothError, match=r"sensitivity explains the text again .* pass explainer="):
        measure(MODEL, [attribution(MODEL, TEXT, TRUTH)], "sensitivity")
    with pytest.raises(TrothError, match="radius must be above 0"):
        Sensitivity(radius=0.0)
    with pytest.raises(TrothError, match="samples must be at least 1"):
        Sensitivity(samples=0)
    box = Lookup({"a b": [0, 1], "[M] b": [0, 0], "a [M]": [0, 0]})
    with pytest.raises(TrothError, match="lookup has no word vectors"):
        score(box, "a b", [1, 2], "sensitivity", explainer="leave_one_out")
