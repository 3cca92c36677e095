import numpy as np
import pytest
import torch

from asking import score
from fakes import CORPUS, Lookup, encoder
from troth import explain, measure
from troth.core.errors import TrothError
from troth.metrics.comprehensiveness import Comprehensiveness

# softmax([0, log 3])[1] = 3/4, softmax([0, 0])[1] = 1/2, softmax([log 3, 0])[1] = 1/4
HIGH, EVEN, LOW = [0, np.log(3)], [0, 0], [np.log(3), 0]
MODEL = Lookup({"a b c d": HIGH, "a b c": EVEN, "a b": LOW, "b c d": HIGH, "c d": EVEN, "a [M] c d": LOW})


def test_by_hand():
    found = score(MODEL, "a b c d", [0.1, 0.2, 0.3, 0.4], "comprehensiveness(ratio=0.25)")
    assert found.value == pytest.approx(0.25)  # 3/4 − 1/2
    assert found.record["p_full"] == pytest.approx(0.75)
    assert found.record["p_erased"] == pytest.approx([0.5])
    assert score(MODEL, "a b c d", [0.1, 0.2, 0.3, 0.4], "comprehensiveness(ratio=0.5)").value == pytest.approx(0.5)
    masked = score(MODEL, "a b c d", [1, 4, 3, 2], "comprehensiveness(ratio=0.25, masking=mask_token)")
    assert masked.value == pytest.approx(0.5)
    other = score(MODEL, "a b c d", [0.1, 0.2, 0.3, 0.4], "comprehensiveness(ratio=0.25)", target=0)
    assert other.value == pytest.approx(-0.25)  # what class 1 loses class 0 gains


def test_the_share_is_rounded_down_and_nothing_erased_is_no_loss():
    found = score(MODEL, "a b c d", [4, 3, 2, 1], "comprehensiveness")  # 20 % of 4 units: none
    assert (found.value, found.record["counts"], found.why) == (0.0, [0], "")
    up = score(MODEL, "a b c d", [1, 1, 1, 2], "comprehensiveness(rounding=ceil)")
    assert (up.value, up.record["counts"]) == (pytest.approx(0.25), [1])


def test_ties_go_to_the_earlier_unit_and_signs_stand():
    assert score(MODEL, "a b c d", [1, 1, 1, 1], "comprehensiveness(ratio=0.5)").value == pytest.approx(
        0.25
    )  # c d left
    # The most negative score is the last to go, however large.
    assert score(MODEL, "a b c d", [0, -9, -9, -9], "comprehensiveness(ratio=0.25)").value == pytest.approx(0)


def test_a_text_without_units_is_undefined():
    found = score(Lookup({"": EVEN, "a": HIGH}), "", [], "comprehensiveness")
    assert np.isnan(found.value)
    assert found.why == "the text has no units"


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_it_is_the_slow_loop_over_rebuilt_inputs(family):
    model = encoder(family)
    attributions = explain(model, CORPUS, "gradient", units="token")
    found = measure(model, attributions, "comprehensiveness(ratio=0.3)")
    for attribution, one in zip(attributions, found, strict=True):
        encoding = attribution.question.encoding
        count = encoding.n_units * 3 // 10
        gone = sorted(range(encoding.n_units), key=lambda unit: -attribution.scores[unit])[:count]
        stays = torch.tensor([int(unit) not in gone for unit in encoding.units])
        p = []
        for chosen in (torch.ones_like(stays), stays):
            inputs = {"input_ids": encoding.ids[chosen][None]}
            if encoding.token_types is not None:
                inputs["token_type_ids"] = encoding.token_types[chosen][None]
            p.append(model.model(**inputs).logits.softmax(-1)[0, attribution.target].item())
        assert one.value == pytest.approx(p[0] - p[1], abs=1e-5)


def test_an_option_out_of_range_is_refused():
    for wrong in (-0.1, 1.5, 0.123456):
        with pytest.raises(TrothError, match=f"a ratio must lie in .0, 1. .* not {wrong}"):
            Comprehensiveness(ratio=wrong)
    with pytest.raises(TrothError, match="no masking is called 'remove'"):
        Comprehensiveness(masking="remove")


def test_the_summary_counts_what_is_undefined():
    metric = Comprehensiveness()
    scores = [score(Lookup({"": EVEN, "a": HIGH}), "", [], metric)] * 2
    scores += [score(MODEL, "a b c d", [1, 1, 1, 2], Comprehensiveness(ratio=0.25))] * 3
    summary = metric.summarize(scores)
    assert (summary.value, summary.low, summary.high) == pytest.approx((0.25, 0.25, 0.25))
    assert summary.count == 3
    assert summary.undefined == {"the text has no units": 2}
