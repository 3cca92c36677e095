"""Every `variant=released` against the rule that the authors' code follows, worked out by hand."""

import dataclasses

import numpy as np
import pytest
import torch

from asking import STRENGTHS, TEXT, TRUTH, Additive, score
from fakes import CORPUS, Lookup, encoder
from troth import explain, measure
from troth.core import catalog

HIGH, EVEN, LOW = [0, np.log(3)], [0, 0], [np.log(3), 0]  # 3/4, 1/2 and 1/4 for class 1
TOP_DOWN = [5, 4, 3, 2, 1]


def value(model, metric, text="a b c d e", scores=TOP_DOWN):
    return score(model, text, scores, metric).value


def aopc_comprehensiveness():
    """1, 5 and 10 % of 5 units are none and score 0, 20 % one, 50 % two; the sum is divided by six."""
    model = Lookup({"a b c d e": HIGH, "b c d e": EVEN, "c d e": LOW})
    assert value(model, "aopc_comprehensiveness(variant=released)") == pytest.approx((1 / 4 + 1 / 2) / 6)
    assert value(model, "aopc_comprehensiveness") == pytest.approx((1 / 4 + 1 / 2) / 5)


def aopc_sufficiency():
    """Where no unit is kept the score is 0, not what the empty text loses; the sum is divided by six."""
    model = Lookup({"a b c d e": HIGH, "": LOW, "a": EVEN, "a b": LOW})
    assert value(model, "aopc_sufficiency(variant=released)") == pytest.approx((1 / 4 + 1 / 2) / 6)
    assert value(model, "aopc_sufficiency") == pytest.approx((3 * 1 / 2 + 1 / 4 + 1 / 2) / 5)
    # Rounded up, every ratio keeps a unit, and only the divisor is left of the variant.
    up = "aopc_sufficiency(variant=released, rounding=ceil, ratios=(0.01, 0.4))"
    assert value(model, up) == pytest.approx((1 / 4 + 1 / 2) / 3)


def aopc_log_odds():
    model = Lookup({"a b c d e": HIGH, "[M] b c d e": EVEN, "[M] [M] c d e": LOW})
    expected = (np.log((1 / 2) / (3 / 4)) + np.log((1 / 4) / (3 / 4))) / 6
    assert value(model, "aopc_log_odds(variant=released)") == pytest.approx(expected)


def normalized_sufficiency():
    """S₀ is lowered by 1e-4, each ratio clipped to [0, 1]; an S₀ of 1 is then no special case."""
    metric = "normalized_sufficiency(variant=released, masking=delete, ratios=(0.2, 0.4, 0.6))"
    model = Lookup({"a b c d e": HIGH, "a": LOW, "a b": EVEN, "a b c": HIGH, "": [0, np.log(2 / 3)]})  # 3/4, …, 2/5
    baseline = 1 - (3 / 4 - 2 / 5) - 1e-4
    each = [0, (1 - 1 / 4 - baseline) / (1 - baseline), 1]  # a alone does worse than nothing: clipped
    assert value(model, metric) == pytest.approx(np.mean(each))
    never = Lookup({"a b c d e": EVEN, "a": LOW, "a b": EVEN, "a b c": HIGH, "": EVEN})
    assert value(never, metric) == pytest.approx((0 + 1 + 1) / 3)
    _erases_with_id_0("normalized_sufficiency", keeps_top=True)


def normalized_comprehensiveness():
    """Each ratio clipped to [0, 1]; an S₀ of 1 is moved by 1e-5 beyond it, so that the score is 0."""
    metric = "normalized_comprehensiveness(variant=released, masking=delete, ratios=(0.2, 0.4))"
    model = Lookup({"a b c d e": HIGH, "b c d e": [0, np.log(2)], "c d e": LOW, "": EVEN})
    assert value(model, metric) == pytest.approx(((3 / 4 - 2 / 3) / (1 / 4) + 1) / 2)  # the second would be 2
    never = Lookup({"a b c d e": EVEN, "b c d e": LOW, "c d e": LOW, "": EVEN})
    assert value(never, metric) == 0
    _erases_with_id_0("normalized_comprehensiveness", keeps_top=False)


def _erases_with_id_0(name, keeps_top):
    """Plain calls with token ids, of which erased ones are 0."""
    model, metric = encoder("bert"), catalog.build("metrics", f"{name}(variant=released, ratios=(0.5,))")
    assert metric.masking == "token(id=0)"
    attributions = explain(model, CORPUS[:3], "gradient")
    for given, found in zip(attributions, measure(model, attributions, metric), strict=True):
        encoding, count = given.question.encoding, -(-given.question.n_units // 2)
        order = sorted(range(given.question.n_units), key=lambda unit: -given.scores[unit])

        def p(gone, encoding=encoding, target=given.target):
            ids = torch.where(torch.isin(encoding.units, torch.tensor(gone)), 0, encoding.ids)
            return model.model(input_ids=ids[None]).logits.softmax(-1)[0, target].item()

        with torch.no_grad():
            assert found.record["p_zero"] == pytest.approx(p(order), abs=1e-5)
            left = found.record["p_kept" if keeps_top else "p_erased"]
            assert left == pytest.approx([p(order[count:] if keeps_top else order[:count])], abs=1e-5)


def p_yes(logit):
    return 1 / (1 + np.exp(-logit))


FULL, EMPTY = p_yes(sum(TRUTH) - 2), p_yes(-2)
ONLY_GREAT = [0, 0, 0, 1, 0]  # by min-max great gets 1 and the others 0: nothing is left to chance


def soft_sufficiency():
    """Swapped: great, the one important word, is what goes. S₀ is lowered by 1e-4, the score clipped."""
    model, metric = Additive(STRENGTHS), "soft_sufficiency(scores=min_max, variant=released)"
    kept, baseline = p_yes(sum(TRUTH) - 4 - 2), 1 - (FULL - EMPTY) - 1e-4
    expected = (1 - (FULL - kept) - baseline) / (1 - baseline)
    assert value(model, metric, TEXT, ONLY_GREAT) == pytest.approx(expected, abs=1e-6)
    dull = Additive({**STRENGTHS, "dull": -9.0}, bias=5.0)  # of dull alone less is left than of nothing
    below = "soft_sufficiency(scores=min_max, variant=released)"
    assert value(dull, below, TEXT, [1, 1, 1, 1, 0]) == 0


def soft_comprehensiveness():
    """Swapped: great alone stays. Clipped."""
    model, metric = Additive(STRENGTHS), "soft_comprehensiveness(scores=min_max, variant=released)"
    expected = max(0, FULL - p_yes(4 - 2)) / (FULL - EMPTY)
    assert value(model, metric, TEXT, ONLY_GREAT) == pytest.approx(expected, abs=1e-6)
    assert value(model, metric, TEXT, [0, 0, 0, 0, 1]) == 1  # dull alone: below the empty text
    assert value(Additive({"dull": -1.0}), metric, "a dull film", [0, 1, 0]) == 0  # S₀ = 1 is defined


def sparsity():
    """One unit more than the share stands for."""
    assert value(Lookup({"a b c d e": HIGH}), "sparsity(ratio=0.4, variant=released)") == pytest.approx(12 / 15)
    assert value(Lookup({"a b c d e": HIGH}), "sparsity(ratio=0.4)") == pytest.approx(9 / 15)


RULES = {
    rule.__name__: rule
    for rule in (
        aopc_comprehensiveness, aopc_sufficiency, aopc_log_odds, normalized_sufficiency, normalized_comprehensiveness,
        soft_sufficiency, soft_comprehensiveness, sparsity,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(RULES))
def test_the_released_rule(name):
    RULES[name]()


def test_every_metric_with_a_released_variant_has_a_rule():
    fields = {name: dataclasses.fields(catalog.find("metrics", name)) for name in catalog.names("metrics")}
    assert set(RULES) == {name for name, found in fields.items() if any(field.name == "variant" for field in found)}
