import numpy as np
import pytest
import torch

from asking import score
from fakes import CORPUS, Lookup, encoder
from troth import explain, measure

HIGH, EVEN, LOW = [0, np.log(3)], [0, 0], [np.log(3), 0]
MODEL = Lookup({"a b c d e": HIGH, "b c d e": EVEN, "d e": LOW, "": LOW})


def test_by_hand():
    # Rounded up: 1, 1, 1, 1 and 3 of 5 units; the empty text costs 1/2: (4 · (1/4)/(1/2) + (1/2)/(1/2)) / 5
    found = score(MODEL, "a b c d e", [5, 4, 3, 2, 1], "normalized_comprehensiveness(masking=delete)")
    assert found.record["counts"] == [1, 1, 1, 1, 3]
    assert found.value == pytest.approx((4 * 0.5 + 1) / 5)
    down = "normalized_comprehensiveness(masking=delete, rounding=floor, ratios=(0.05, 0.2))"
    assert score(MODEL, "a b c d e", [5, 4, 3, 2, 1], down).value == pytest.approx((0 + 0.5) / 2)


def test_a_gain_counts_as_no_loss():
    model = Lookup({"a b": EVEN, "b": HIGH, "": LOW})
    assert score(model, "a b", [2, 1], "normalized_comprehensiveness(masking=delete)").value == 0


def test_an_empty_input_that_predicts_as_well_leaves_it_undefined():
    model = Lookup({"a b": EVEN, "b": LOW, "": HIGH})  # S0 = 1 − max(0, 1/2 − 3/4) = 1
    found = score(model, "a b", [2, 1], "normalized_comprehensiveness(masking=delete)")
    assert np.isnan(found.value)
    assert found.why == "the empty input predicts as well as the whole one (S₀ = 1)"
    assert found.record["p_zero"] == pytest.approx(0.75)
    released = score(model, "a b", [2, 1], "normalized_comprehensiveness(masking=delete, variant=released)")
    assert released.value == 0


@pytest.mark.parametrize("family", ["bert", "albert"])
def test_it_is_equation_2_with_word_vectors_set_to_zero(family):
    model = encoder(family)
    attributions = explain(model, CORPUS, "gradient")
    checked = 0
    for attribution, found in zip(
        attributions, measure(model, attributions, "normalized_comprehensiveness"), strict=True
    ):
        encoding, n_units = attribution.question.encoding, attribution.question.n_units
        order = sorted(range(n_units), key=lambda unit: -attribution.scores[unit])

        def p(gone, encoding=encoding, target=attribution.target):
            vectors = model.embed(encoding.ids).detach().clone()
            vectors[[int(unit) in gone for unit in encoding.units]] = 0
            inputs = {"inputs_embeds": vectors[None], "token_type_ids": encoding.token_types[None]}
            return model.model(**inputs).logits.softmax(-1)[0, target].item()

        with torch.no_grad():
            full, zero = p([]), p(order)
            baseline = 1 - max(0, full - zero)
            counts = [-(-n_units * percent // 100) for percent in (1, 5, 10, 20, 50)]
            losses = [max(0, full - p(order[:count])) for count in counts]
        if baseline == 1:
            assert np.isnan(found.value)
        elif baseline < 0.99:  # closer to 1, rounding is all there is
            assert found.value == pytest.approx(np.mean([loss / (1 - baseline) for loss in losses]), rel=1e-3, abs=1e-3)
            checked += 1
    assert checked >= 2
