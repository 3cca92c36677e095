import captum.metrics
import numpy as np
import pytest
import torch

from asking import STRENGTHS, TEXT, TRUTH, Additive, score
from fakes import CORPUS, Lookup, encoder
from troth import explain, measure
from troth.core.errors import TrothError
from troth.metrics import formulas
from troth.metrics.infidelity import Infidelity

MODEL = Additive(STRENGTHS)


def test_the_formula_by_hand():
    # Told 3 and 1, seen 2 and 2: ((3 − 2)² + (1 − 2)²) / 2
    assert formulas.infidelity([2, 1], [[1, 1], [0, 1]], [2, 2], normalize=False) == 1
    # Best factor (3·2 + 1·2) / (9 + 1) = 0.8: (0.4² + 1.2²) / 2
    assert formulas.infidelity([2, 1], [[1, 1], [0, 1]], [2, 2]) == pytest.approx((0.16 + 1.44) / 2)
    assert formulas.infidelity([-2, -1], [[1, 1], [0, 1]], [2, 2]) == 4  # a negative factor is not allowed
    assert formulas.infidelity([0, 0], [[1, 1], [0, 1]], [2, 2]) == 4
    assert np.isnan(formulas.infidelity([1.0], np.zeros((0, 1)), []))


@pytest.mark.parametrize("normalize", [True, False])
def test_the_formula_is_captums(normalize):
    generator = np.random.default_rng(3)
    weights, scores = generator.normal(size=6), generator.normal(size=6) + 1
    weights += scores  # they agree somewhat, so that the best factor is positive
    erased = (generator.random((40, 6)) < 0.5).astype(float)
    given = torch.ones(1, 6, dtype=torch.float64)

    def forward(inputs):
        return (inputs @ torch.from_numpy(weights)) ** 2

    def perturb(inputs):
        return torch.from_numpy(erased), inputs - torch.from_numpy(erased)

    expected = captum.metrics.infidelity(
        forward, perturb, given, torch.from_numpy(scores)[None], n_perturb_samples=40, normalize=normalize
    )
    change = weights.sum() ** 2 - ((1 - erased) @ weights) ** 2
    assert formulas.infidelity(scores, erased, change, normalize=normalize) == pytest.approx(expected.item())


def test_the_truth_is_faithful_at_any_scale_and_unscaled_only_at_its_own():
    assert score(MODEL, TEXT, TRUTH, "infidelity").value == pytest.approx(0, abs=1e-10)
    doubled = [2 * one for one in TRUTH]
    assert score(MODEL, TEXT, doubled, "infidelity").value == pytest.approx(0, abs=1e-10)
    assert score(MODEL, TEXT, TRUTH, "infidelity(normalize=False)").value == pytest.approx(0, abs=1e-10)
    off = score(MODEL, TEXT, doubled, "infidelity(normalize=False)")
    assert off.value == pytest.approx(off.record["mean_squared_change"])  # told twice of what is seen


def test_it_is_the_loop_over_masked_sets():
    model = encoder("electra")
    attributions = explain(model, CORPUS[:3], "input_x_gradient")
    for given, found in zip(attributions, measure(model, attributions, "infidelity(samples=9)"), strict=True):
        encoding = given.question.encoding
        numbers = given.question.draws("infidelity").uniforms(9, encoding.n_units + 1).numpy()
        told, seen = [], []
        full = model.model(input_ids=encoding.ids[None], token_type_ids=encoding.token_types[None]).logits[
            0, given.target
        ]
        for share, *own in numbers:
            gone = [unit for unit, one in enumerate(own) if one < share]
            ids = torch.where(torch.isin(encoding.units, torch.tensor(gone)), model.mask_id, encoding.ids)
            masked = model.model(input_ids=ids[None], token_type_ids=encoding.token_types[None]).logits[0, given.target]
            told.append(sum(given.scores[unit] for unit in gone))
            seen.append((full - masked).item())
        told, seen = np.array(told), np.array(seen)
        factor = max(0, told @ seen / (told @ told))
        assert found.value == pytest.approx(((factor * told - seen) ** 2).mean(), abs=1e-5)


def test_sets_of_every_size_are_drawn():
    drawn = explain(MODEL, [TEXT], "random")[0].question.draws("infidelity").uniforms(2000, 6).numpy()
    sizes = (drawn[:, 1:] < drawn[:, :1]).sum(1)
    assert np.bincount(sizes, minlength=6) / 2000 == pytest.approx([1 / 6] * 6, abs=0.04)


def test_undefined_and_errors():
    assert score(Lookup({"": [0, 1]}), "", [], "infidelity").why == "the text has no units"
    with pytest.raises(TrothError, match="infidelity: samples must be at least 1, not 0"):
        Infidelity(samples=0)
