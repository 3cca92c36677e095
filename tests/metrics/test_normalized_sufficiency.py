import numpy as np
import pytest

from asking import Additive, score
from fakes import Lookup
from troth.core.errors import TrothError

HIGH, EVEN, LOW = [0, np.log(3)], [0, 0], [np.log(3), 0]
MODEL = Lookup({"a b c d e": HIGH, "a": EVEN, "a b c": HIGH, "": LOW})


def test_by_hand():
    # S0 = 1/2; one unit kept four times: (3/4 − 1/2) / (1/2), three units once: 1
    found = score(MODEL, "a b c d e", [5, 4, 3, 2, 1], "normalized_sufficiency(masking=delete)")
    assert found.value == pytest.approx((4 * 0.5 + 1) / 5)
    assert found.record["p_zero"] == pytest.approx(0.25)


def test_worse_than_nothing_is_below_zero_and_clipped_only_as_released():
    model = Lookup({"a b": HIGH, "a": LOW, "": EVEN})
    found = score(model, "a b", [2, 1], "normalized_sufficiency(masking=delete)")
    assert found.value == pytest.approx((0.5 - 0.75) / 0.25)
    assert score(model, "a b", [2, 1], "normalized_sufficiency(masking=delete, variant=released)").value == 0


def test_an_empty_input_that_predicts_as_well_leaves_it_undefined():
    found = score(Lookup({"a b": EVEN, "a": LOW, "": EVEN}), "a b", [2, 1], "normalized_sufficiency(masking=delete)")
    assert np.isnan(found.value)
    assert "S₀ = 1" in found.why


def test_keeping_everything_keeps_the_whole_prediction():
    model = Additive({"great": 4.0})
    assert score(model, "a great film", [0, 1, 0], "normalized_sufficiency(ratios=(1.0,))").value == pytest.approx(1.0)
    assert score(model, "a great film", [0, 1, 0], "normalized_sufficiency(ratios=(0.0,))").value == pytest.approx(0.0)


def test_a_black_box_has_no_word_vectors_and_says_what_to_do():
    with pytest.raises(TrothError, match=r"lookup has no word vectors .* masking mask_token or delete"):
        score(MODEL, "a b c d e", [5, 4, 3, 2, 1], "normalized_sufficiency")
