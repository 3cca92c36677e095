import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients as Referee
from tests.explainers.referees import Formula, explained, from_vectors, questions

from fakes import encoder
from sampled import every
from troth.core.types import Example, Question, replace
from troth.explainers.integrated_gradients import IntegratedGradients
from troth.maskings.mask_token import MaskToken


@pytest.mark.parametrize("steps", [1, 5, 20])
def test_by_hand(steps):
    """f = good · film = 12: at i/k the gradients are i/k · (film, good), so each word gets 12 · (k + 1) / 2k."""
    model = Formula({"good": 3.0, "film": 4.0}, lambda numbers, _: numbers[:, 2] * numbers[:, 3])
    (encoding,) = model.encode([Example("0", "a good film")])
    question = Question(encoding, 1)
    (found,) = explained(IntegratedGradients(steps=steps), [question], model)
    each = 12 * (steps + 1) / (2 * steps)
    np.testing.assert_allclose(found.scores, [0, each, each], rtol=1e-5)
    assert found.gap == pytest.approx(2 * each - 12, abs=1e-4)
    (found,) = explained(IntegratedGradients(steps=steps, rule="gauss_legendre"), [question], model)
    np.testing.assert_allclose(found.scores, [0, 6, 6], rtol=1e-5)
    assert found.gap == pytest.approx(0, abs=1e-4)
    (found,) = explained(IntegratedGradients(steps=steps, variant="released"), [question], model)
    each = 12 * (steps + 1) * (2 * steps + 1) / (6 * steps**2)
    np.testing.assert_allclose(found.scores, [0, each, each], rtol=1e-5)


@pytest.mark.parametrize("family", every(2, ["bert", "roberta"]))
@pytest.mark.parametrize("baseline", ["zero", "mask", "pad"])
@pytest.mark.parametrize("moves", ["units", "all"])
@pytest.mark.parametrize(("rule", "method"), [("right", "riemann_right"), ("gauss_legendre", "gausslegendre")])
def test_captum(family, baseline, moves, rule, method):
    model, steps = encoder(family), 12
    explainer = IntegratedGradients(steps=steps, baseline=baseline, moves=moves, rule=rule)
    asked = questions(family)
    matrix = model.embedding_matrix.detach()
    end = {"zero": torch.zeros(matrix.shape[1]), "mask": matrix[model.mask_id], "pad": matrix[model.pad_id]}[baseline]
    for question, found in zip(asked, explained(explainer, asked, model), strict=True):
        encoding = question.encoding
        forward, vectors = from_vectors(model, question)
        travels = torch.ones_like(encoding.units, dtype=torch.bool) if moves == "all" else encoding.units >= 0
        start = torch.where(travels[None, :, None], end, vectors)
        scores = Referee(forward).attribute(vectors, start, target=1, n_steps=steps, method=method)[0].sum(-1).detach()
        np.testing.assert_allclose(found.scores, encoding.per_unit(scores).numpy(), atol=1e-4)
        with torch.no_grad():
            change = float((forward(vectors) - forward(start))[0, 1])
        assert found.gap == pytest.approx(float(scores.sum()) - change, abs=2e-4)
        assert found.rest == pytest.approx(float(scores[encoding.units < 0].sum()), abs=1e-4)


@pytest.mark.parametrize("moves", ["units", "all"])
def test_mask_tokens_travel_as_in_recursive_roar(moves):
    """With erased="move" a partly masked input is explained as if its mask tokens were any other tokens."""
    model = encoder()
    (encoding,) = model.encode([Example("0", "a good film and the soup was cold")])
    left = torch.ones(encoding.n_units)
    left[[1, 4]] = 0
    ids = encoding.ids.clone()
    ids[torch.isin(encoding.units, torch.tensor([1, 4]))] = model.mask_id
    masked = replace(encoding, ids=ids)
    explainer = IntegratedGradients(steps=12, moves=moves, erased="move")
    (found,) = explained(explainer, [Question(encoding, 1).erased(left, MaskToken())], model)
    (expected,) = explained(IntegratedGradients(steps=12, moves=moves), [Question(masked, 1)], model)
    np.testing.assert_allclose(found.scores, expected.scores * left.numpy(), rtol=1e-5, atol=1e-7)
    assert found.rest == pytest.approx(expected.rest + float(expected.scores[[1, 4]].sum()), rel=1e-4, abs=1e-6)
    assert found.gap == pytest.approx(expected.gap, rel=1e-4, abs=1e-6)
    (frozen,) = explained(IntegratedGradients(steps=12, moves=moves), [found.question], model)
    assert not np.allclose(frozen.scores, found.scores, rtol=1e-2)
