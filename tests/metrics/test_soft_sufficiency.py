import numpy as np
import pytest
import torch

from asking import STRENGTHS, TEXT, TRUTH, Additive, attribution, score
from fakes import CORPUS, encoder
from troth import explain, measure
from troth.core import draws
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.maskings.soft import Soft
from troth.metrics._soft import at_retention, importance, token_counts
from troth.metrics.soft_sufficiency import SoftSufficiency

MODEL = Additive(STRENGTHS)


def p_yes(logit):
    return 1 / (1 + np.exp(-logit))


FULL, EMPTY = p_yes(sum(TRUTH) - 2), p_yes(-2)


def test_by_hand():
    # Scores 0 and 1 leave nothing to chance: great stays, all others go.
    found = score(MODEL, TEXT, [0, 0, 0, 1, 0], "soft_sufficiency(scores=min_max)")
    kept = p_yes(4 - 2)
    assert found.value == pytest.approx((min(kept, FULL) - EMPTY) / (FULL - EMPTY), abs=1e-6)
    plain = score(MODEL, TEXT, [0, 0, 0, 1, 0], "soft_sufficiency(scores=min_max, normalized=False)")
    assert plain.value == pytest.approx(1 - (FULL - kept), abs=1e-6)
    assert found.record["retained"] == pytest.approx(1 / 5)
    assert np.isnan(found.record["standard_error"])  # one draw has none


def test_scores_become_probabilities():
    def mapped(scores, name=None, signed=True):
        return importance(attribution(MODEL, "a good film", scores, signed=signed), name).tolist()

    assert mapped([0.0, np.log(3), -np.log(3)]) == pytest.approx([0.5, 0.75, 0.25])  # signed: sigmoid
    assert mapped([1.0, 3.0, 2.0], signed=False) == pytest.approx([0.0, 1.0, 0.5])  # unsigned: min-max
    assert mapped([0.0, np.log(2), 0.0], "softmax") == pytest.approx([0.25, 0.5, 0.25])
    assert mapped([5.0, 9.0, 5.0], "rank") == pytest.approx([0.5, 1.0, 0.5])
    assert mapped([2.0, 2.0, 2.0], "min_max") == [0.5, 0.5, 0.5]  # equal scores say nothing


@pytest.mark.parametrize("at", ["word", "embedding_output"])
def test_it_is_equation_4_with_the_mask_written_out(at):
    model = encoder("bert")
    for given, found in zip(
        attributions := explain(model, CORPUS[:3], "input_x_gradient"),
        measure(model, attributions, f"soft_sufficiency(samples=3, at={at}, normalized=False)"),
        strict=True,
    ):
        encoding = given.question.encoding
        keep = torch.ones(len(encoding.ids))
        inside = encoding.units >= 0
        keep[inside] = torch.sigmoid(torch.from_numpy(given.scores))[encoding.units[inside]]
        spec = f"soft(at={at!r})"
        keys = draws.row_keys(draws.key(0, given.example.id, "soft", spec), torch.arange(3))
        numbers = draws.uniforms(keys, len(keep) * 16).view(3, len(keep), 16)
        embeddings = model.model.bert.embeddings
        types = encoding.token_types.expand(3, -1)
        with torch.no_grad():
            full = model.model(input_ids=encoding.ids[None]).logits.softmax(-1)[0, given.target].item()
            masks = (numbers < keep[:, None]).float()
            if at == "word":
                hidden = embeddings(inputs_embeds=model.embed(encoding.ids) * masks, token_type_ids=types)
            else:
                hidden = embeddings(input_ids=encoding.ids.expand(3, -1), token_type_ids=types) * masks
            states = model.model.bert.encoder(hidden).last_hidden_state
            p = model.model.classifier(model.model.bert.pooler(states)).softmax(-1)[:, given.target]
        values = [1 - max(0, full - one) for one in p.tolist()]
        assert found.value == pytest.approx(np.mean(values), abs=1e-5)
        assert found.record["standard_error"] == pytest.approx(np.std(values, ddof=1) / np.sqrt(3), abs=1e-5)


def test_more_samples_come_closer_to_the_expectation():
    spread = [
        np.std([score(MODEL, TEXT, TRUTH, f"soft_sufficiency(samples={n})", seed=seed).value for seed in range(12)])
        for n in (1, 64)
    ]
    assert spread[1] < spread[0] / 3  # √64 = 8 in expectation
    told = score(MODEL, TEXT, TRUTH, "soft_sufficiency(samples=64)").record["standard_error"]
    assert told == pytest.approx(spread[1], rel=0.6)


def test_an_empty_input_that_predicts_as_well_leaves_it_undefined():
    found = score(Additive({"dull": -1.0}), "a dull film", [0, 1, 0], "soft_sufficiency")
    assert np.isnan(found.value)
    assert "S₀ = 1" in found.why
    assert found.record["retained"] > 0  # stored all the same


def test_no_units_and_one_unit():
    assert score(MODEL, "", [], "soft_sufficiency").why == "the text has no units"
    assert score(MODEL, "great", [1], "soft_sufficiency(scores=rank)").value == pytest.approx(1.0)


# Equal retention


def slow_retention(keep, weights, retention):
    """The factor by bisection; each weight's share is capped at 1."""
    low, high = 0.0, 1e9
    for _ in range(200):
        middle = (low + high) / 2
        if np.minimum(1, middle * keep) @ weights / weights.sum() < retention:
            low = middle
        else:
            high = middle
    return np.minimum(1, high * keep)


def test_retention_is_exact_for_any_scores():
    generator = np.random.default_rng(0)
    for _ in range(50):
        keep, weights = 0.01 + 0.9 * generator.random(7) ** 3, generator.integers(1, 4, 7).astype(float)
        retention = generator.uniform(0.02, 0.98)
        found = at_retention(keep, weights, retention)
        np.testing.assert_allclose(found, slow_retention(keep, weights, retention), atol=1e-6)
        assert found @ weights / weights.sum() == pytest.approx(retention)


def test_retention_where_zeros_stand_in_the_way():
    keep, ones = np.array([0.5, 0.0, 0.0, 0.0]), np.ones(4)
    assert at_retention(keep, ones, 0.25).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert at_retention(keep, ones, 0.55) == pytest.approx([1.0, 0.4, 0.4, 0.4])  # what is left is shared evenly
    assert at_retention(np.zeros(4), ones, 0.3) == pytest.approx([0.3] * 4)
    assert at_retention(keep, ones, 1.0).tolist() == [1.0] * 4
    assert at_retention(keep, ones, 0.0).tolist() == [0.0] * 4
    assert at_retention(np.array([0.5, 0.25]), np.array([0.0, 2.0]), 0.5)[1] == 0.5  # a unit without tokens has no mass


def test_words_weigh_as_many_tokens_as_they_have():
    (encoding,) = encoder("bert").encode([Example(id="a", text="a good loving film")])
    weights = token_counts(encoding)
    assert weights.tolist() == [1, 1, len(encoding.ids) - 2 - 3, 1]
    assert weights[2] > 1


def test_every_method_keeps_the_same_share():
    model = encoder("roberta")
    for explainer in ("gradient", "leave_one_out", "random"):
        attributions = explain(model, CORPUS[:2], explainer)
        for found in measure(model, attributions, "soft_sufficiency(retention=0.3)"):
            assert found.record["retained"] == pytest.approx(0.3)


def test_the_area_over_retentions_by_hand():
    points = (0.2, 0.6, 1.0)
    single = [score(MODEL, TEXT, TRUTH, f"soft_sufficiency(masking=zero, retention={pi})").value for pi in points]
    found = score(MODEL, TEXT, TRUTH, f"soft_sufficiency(masking=zero, retention={points})")
    assert found.value == pytest.approx((single[0] / 2 + single[1] + single[2] / 2) * 0.4 / 0.8)
    assert found.record["retained_by_level"] == pytest.approx(points)
    everything = score(MODEL, TEXT, TRUTH, "soft_sufficiency(masking=zero, retention=auc)")
    assert everything.record["retained_by_level"] == pytest.approx([pi / 10 for pi in range(1, 10)])


# Other ways to fade


def test_other_maskings():
    faded = score(MODEL, TEXT, TRUTH, "soft_sufficiency(masking=zero, normalized=False, samples=9)")
    logit = sum(strength / (1 + np.exp(-strength)) for strength in TRUTH) - 2
    assert faded.value == pytest.approx(1 - max(0, FULL - p_yes(logit)), abs=1e-6)
    assert faded.record["standard_error"] == 0  # nothing is drawn, so one row is enough
    assert np.shape(faded.record["p_left"]) == (1, 1)
    noisy = score(MODEL, TEXT, TRUTH, "soft_sufficiency(masking=gaussian(variance=0.01), samples=20)")
    assert noisy.value == pytest.approx(1, abs=0.05)  # little noise, little loss
    loud = score(MODEL, TEXT, TRUTH, "soft_sufficiency(masking=gaussian(variance=2), samples=20)")
    assert loud.value < noisy.value


def test_errors_a_user_can_mend():
    with pytest.raises(TrothError, match="soft_sufficiency: samples must be at least 1, not 0"):
        SoftSufficiency(samples=0)
    with pytest.raises(TrothError, match="retention must be a share from 0 to 1"):
        SoftSufficiency(retention=1.5)
    with pytest.raises(TrothError, match="several that rise"):
        SoftSufficiency(retention=(0.5, 0.2))
    with pytest.raises(TrothError, match="delete erases whole units"):
        SoftSufficiency(masking="delete")
    with pytest.raises(TrothError, match="at=embedding_output needs the masking soft, not gaussian"):
        SoftSufficiency(masking="gaussian", at="embedding_output")
    assert SoftSufficiency(at="embedding_output").perturbation == Soft(at="embedding_output")
