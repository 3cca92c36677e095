import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients
from tests.explainers.referees import Formula, explained, from_vectors, questions, total, value

import troth
from fakes import encoder
from troth.core.errors import TrothError
from troth.explainers import sequential_integrated_gradients as module
from troth.explainers.leave_one_out import LeaveOneOut
from troth.explainers.sequential_integrated_gradients import SequentialIntegratedGradients
from troth.maskings.mask_token import MaskToken


def test_by_hand():
    # f = (sum of the numbers)², the mask's number is 1: good 3 and film 2 give 25; good masked 9, film masked 16.
    numbers = {"good": 3.0, "film": 2.0, "[MASK]": 1.0}
    model = Formula(numbers, lambda values, weights: values.sum(1) ** 2)
    (attribution,) = troth.explain(model, "good film", "sequential_integrated_gradients", target=1)
    assert attribution.scores == pytest.approx([25 - 9, 25 - 16])
    assert attribution.gap == pytest.approx(0, abs=1e-4)
    # The zero baseline: 25 − 4 and 25 − 9. The right Riemann sum of 2 (a + t v) v at t = ½, 1 is a longer one.
    (attribution,) = troth.explain(
        model, "good film", "sequential_integrated_gradients(steps=2, baseline=zero, rule=right)", target=1
    )
    assert attribution.scores == pytest.approx([3 * (2 + 1.5 + 5), 2 * (3 + 1 + 5)])
    assert attribution.gap == pytest.approx(3 * 8.5 + 2 * 9 - (25 - 4) - (25 - 9))
    (attribution,) = troth.explain(model, "good film", "sequential_integrated_gradients(normalize=True)", target=1)
    assert attribution.scores == pytest.approx(np.array([16, 9]) / np.hypot(16, 9))


def test_each_score_is_what_masking_the_unit_changes():
    for units in ("token", "word", "sentence"):
        asked = questions(units=units)
        path = explained(SequentialIntegratedGradients(), asked)
        erased = explained(LeaveOneOut(), asked)
        for one, other in zip(path, erased, strict=True):
            assert one.scores == pytest.approx(other.scores, abs=1e-4)
            assert one.gap == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
def test_against_captum_one_token_at_a_time(family):
    model = encoder(family)
    asked = questions(family, units="token")[:2]
    ours = explained(SequentialIntegratedGradients(steps=7, of="probability"), asked, model)
    for question, attribution in zip(asked, ours, strict=True):
        forward, vectors = from_vectors(model, question, lambda logits: logits.softmax(-1))
        for unit in range(question.n_units):
            baseline = vectors.clone()
            baseline[0, question.encoding.units == unit] = model.embedding_matrix[model.mask_id].detach()
            expected = IntegratedGradients(forward).attribute(
                vectors, baseline, target=question.target, n_steps=7, method="gausslegendre"
            )
            assert attribution.scores[unit] == pytest.approx(float(expected.sum()), abs=1e-5)


def test_a_long_text_is_asked_about_in_parts(monkeypatch):
    asked = questions()
    whole = explained(SequentialIntegratedGradients(steps=5), asked)
    monkeypatch.setattr(module, "_ELEMENTS", 100)
    for one, other in zip(whole, explained(SequentialIntegratedGradients(steps=5), asked), strict=True):
        assert one.scores == pytest.approx(other.scores, abs=1e-6)


def test_what_is_erased_already_stays_erased_and_scores_nothing():
    (question,) = questions(texts=["a good film"])
    base = torch.tensor([1.0, 0.0, 1.0])
    (attribution,) = explained(SequentialIntegratedGradients(), [question.erased(base, MaskToken())])
    model = encoder()
    whole = value(model, question, [1])
    expected = [whole - value(model, question, [0, 1]), 0, whole - value(model, question, [1, 2])]
    assert attribution.scores == pytest.approx(expected, abs=1e-4)


def test_the_planted_word_comes_first():
    model = Formula({"awful": 4.0, "soup": 0.5, "cold": -1.0}, total)
    (attribution,) = troth.explain(model, "the soup was cold and awful", "sequential_integrated_gradients", target=1)
    assert attribution.units[int(attribution.scores.argmax())] == "awful"


def test_bad_options():
    with pytest.raises(TrothError, match="steps must be at least 1, not 0"):
        SequentialIntegratedGradients(steps=0)
