"""Path methods on an input that was erased in part: that part stays as it is and scores 0, and the rest is complete."""

import numpy as np
import pytest
import torch
from tests.explainers.referees import Formula, questions

from fakes import encoder
from troth.core import catalog
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import Probe
from troth.maskings.mix import Mix

BASE = torch.tensor([1.0, 0, 1, 1, 0, 1, 1])
MASKINGS = ["mask_token", "pad", "zero", "delete", "mix(reference=mask)", "mix(reference=zero)", "token(id=7)"]
METHODS = {
    "integrated_gradients": "integrated_gradients(steps=40, rule=gauss_legendre, baseline={})",
    "deep_lift": "deep_lift(baseline={})",
    "gradient_shap": "gradient_shap(samples=4000, baseline={})",
}


def both_ends(prober, question, baseline):
    def asking():
        answer = yield Probe(question, torch.stack([torch.ones(7), 1 - BASE]), Mix(reference=baseline))
        return answer.value()

    return prober.ask(asking())


@pytest.mark.parametrize("masking", MASKINGS)
@pytest.mark.parametrize("baseline", ["zero", "mask"])
@pytest.mark.parametrize("name", ["integrated_gradients", "deep_lift"])
def test_the_rest_sums_to_what_it_changes(name, baseline, masking):
    (question,) = questions(texts=["a good film with a bad ending"])
    erased = question.erased(BASE, catalog.build("maskings", masking))
    prober = Prober(encoder())
    found = prober.ask(catalog.build("explainers", METHODS[name].format(baseline)).ask([erased]))[0]
    assert found.scores[[1, 4]].tolist() == [0, 0]
    whole, nothing = both_ends(prober, erased, baseline)
    assert float(whole - nothing) != pytest.approx(0, abs=1e-3)
    assert found.scores.sum() == pytest.approx(float(whole - nothing), abs=2e-3)
    assert found.gap == pytest.approx(0, abs=2e-3)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("moves", ["units", "all"])
def test_by_hand_with_a_mask_that_has_a_number(name, moves):
    """f = good · film · mask: the mask's 5 is a constant, so IG and DeepLift give each word half of 3 · 4 · 5."""
    model = Formula({"good": 3.0, "film": 4.0, "[MASK]": 5.0}, lambda n, _: n[:, 1] * n[:, 2] * n[:, 3])
    (encoding,) = model.encode([Example("0", "good film bad")])
    question = Question(encoding, 1).erased(torch.tensor([1.0, 1, 0]), catalog.build("maskings", "mask_token"))
    method = catalog.build("explainers", METHODS[name].format("zero")[:-1] + f", moves={moves})")
    found = Prober(model).ask(method.ask([question]))[0]
    if name == "gradient_shap":
        # Half of IG in expectation; exactly, the mean over the samples that start at zero of place · 12 · 5.
        coin, place = question.draws("gradient_shap").uniforms(4000, 2).T
        each = float((place * (coin < 0.5)).sum() / 4000 * 60)
        assert each == pytest.approx(15, rel=0.05)
        np.testing.assert_allclose(found.scores, [each, each, 0], rtol=1e-4)
    else:
        np.testing.assert_allclose(found.scores, [30, 30, 0], rtol=1e-4)
