import numpy as np
import pytest

from asking import STRENGTHS, TEXT, TRUTH, Additive, score
from fakes import CORPUS, encoder
from troth import explain, measure
from troth.metrics.soft_comprehensiveness import SoftComprehensiveness

MODEL = Additive(STRENGTHS)


def p_yes(logit):
    return 1 / (1 + np.exp(-logit))


FULL, EMPTY = p_yes(sum(TRUTH) - 2), p_yes(-2)


def test_by_hand():
    # Scores 0 and 1 leave nothing to chance: great goes, all others stay.
    found = score(MODEL, TEXT, [0, 0, 0, 1, 0], "soft_comprehensiveness(scores=min_max)")
    left = p_yes(sum(TRUTH) - 4 - 2)
    assert found.value == pytest.approx((FULL - left) / (FULL - EMPTY), abs=1e-6)
    plain = score(MODEL, TEXT, [0, 0, 0, 1, 0], "soft_comprehensiveness(scores=min_max, normalized=False)")
    assert plain.value == pytest.approx(FULL - left, abs=1e-6)
    assert found.record["retained"] == pytest.approx(4 / 5)


def test_a_gain_counts_as_no_loss():
    assert score(MODEL, TEXT, [0, 0, 0, 0, 1], "soft_comprehensiveness(scores=min_max)").value == 0  # without dull


def test_retention_is_what_stays_here_too():
    model = encoder("bert")
    attributions = explain(model, CORPUS[:2], "leave_one_out")
    scores = measure(model, attributions, "soft_comprehensiveness(retention=0.7, samples=4)")
    assert [one.record["retained"] for one in scores] == pytest.approx([0.7, 0.7])
    summary = SoftComprehensiveness().summarize(scores)
    assert summary.extra["retained"] == pytest.approx(0.7)
    assert summary.extra["standard_error"] > 0


def test_the_two_soft_metrics_mirror_each_other():
    # Erasing with 1 − a what the other keeps with a: the same faded input.
    mirrored = [0.25, 0.75, 0.5, 1.0, 0.0]
    kept = score(MODEL, TEXT, mirrored, "soft_sufficiency(masking=zero, scores=min_max)")
    erased = score(MODEL, TEXT, [1 - one for one in mirrored], "soft_comprehensiveness(masking=zero, scores=min_max)")
    assert kept.record["p_left"] == erased.record["p_left"]


def test_undefined():
    assert score(MODEL, "", [], "soft_comprehensiveness").why == "the text has no units"
    found = score(Additive({"dull": -1.0}), "a dull film", [0, 1, 0], "soft_comprehensiveness")
    assert np.isnan(found.value)
    assert "S₀ = 1" in found.why
