from itertools import permutations
from math import comb

import numpy as np
import pytest
import torch

import troth
from asking import attribution, score
from fakes import Lookup, encoder
from troth.core.errors import TrothError
from troth.core.types import Attribution
from troth.engine.prober import Prober
from troth.metrics import formulas
from troth.metrics.normalized_aopc import NormalizedAopc
from troth.models.black_box import BlackBox
from troth.verbs.measure import measure_each

WORDS = ["a", "good", "film", "with", "the", "great", "cast", "and", "an", "awful", "dull", "plot"]
NEAR = 1e-6  # a model answers in float32
HIGH, EVEN, LOW = [0, np.log(3)], [0, 0], [np.log(3), 0]
# p = 3/4; without a 1/4, without b 1/2, without c 3/4, without a and b 1/2, …
MODEL = Lookup(
    {
        "a b c": HIGH, "[M] b c": LOW, "a [M] c": EVEN, "a b [M]": HIGH, "[M] [M] c": EVEN, "[M] b [M]": LOW,
        "a [M] [M]": EVEN, "[M] [M] [M]": EVEN,
    }
)  # fmt: skip


def answers(p, texts):
    """Class 1 has the probability of the subset of words that are erased: bit i stands for word i."""
    own = p[[sum((word == "_") << unit for unit, word in enumerate(text.split())) for text in texts]]
    return np.stack([1 - own, own], 1)


def looked_up(p):
    return BlackBox(lambda texts: answers(p, texts), mask_text="_"), p


def interacting(count, seed=0):
    """The probability without any subset is drawn, so that no word acts on its own."""
    return looked_up(np.random.default_rng(seed).uniform(0.05, 0.95, 1 << count))


def smooth(count, seed=0):
    """Words that add up in the logit, with pairs that act together: what a classifier looks like."""
    rng = np.random.default_rng(seed)
    single, pair = rng.normal(0, 1, count), np.triu(rng.normal(0, 0.5, (count, count)), 1)
    keep = 1.0 - (np.arange(1 << count)[:, None] >> np.arange(count)) % 2
    return looked_up(1 / (1 + np.exp(-(keep @ single + np.einsum("ri,ij,rj->r", keep, pair, keep)))))


def aopc_of(order, p_by_subset):
    """Slow twin: straight from the formula."""
    erased, losses = 0, []
    for unit in order:
        erased |= 1 << unit
        losses.append(p_by_subset[0] - p_by_subset[erased])
    return sum(losses) / len(losses)


def scores_of(order):
    """Scores that rank the units in this order."""
    scores = np.zeros(len(order))
    scores[list(order)] = np.arange(len(order), 0, -1)
    return scores


def text_of(count):
    return " ".join(WORDS[:count])


def test_by_hand():
    # Losses of a, b, c: 1/2, 1/4, 0; of ab, ac, bc: 1/4, 1/2, 1/4; of abc: 1/4.
    best = score(MODEL, "a b c", [3, 1, 2], "normalized_aopc")  # a, c, b: (1/2 + 1/2 + 1/4) / 3
    worst = score(MODEL, "a b c", [1, 2, 3], "normalized_aopc")  # c, b, a: (0 + 1/4 + 1/4) / 3
    middle = score(MODEL, "a b c", [2, 3, 1], "normalized_aopc")  # b, a, c: (1/4 + 1/4 + 1/4) / 3
    assert (best.value, worst.value) == pytest.approx((1, 0), abs=1e-12)
    assert middle.value == pytest.approx(1 / 3)
    for found in (best, worst, middle):
        assert (found.record["low"], found.record["high"]) == pytest.approx((0.5 / 3, 1.25 / 3))
        assert found.record["bounds"] == "exact"
    assert middle.record["aopc"] == pytest.approx(0.25)
    assert middle.record["p_full"] == pytest.approx(0.75)
    assert middle.record["p_erased"] == pytest.approx([0.5, 0.5, 0.5])


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7])
def test_every_order_of_up_to_7_units_as_by_brute_force(count):
    model, p = interacting(count, seed=count)
    values = {order: aopc_of(order, p) for order in permutations(range(count))}
    low, high = min(values.values()), max(values.values())
    assert formulas.aopc_bounds(p) == pytest.approx((low, high), abs=1e-12)
    ordered = sorted(values, key=values.get)
    tried = [ordered[0], ordered[-1], *ordered[:: max(1, len(ordered) // 20)]]
    given = [attribution(model, text_of(count), scores_of(order)) for order in tried]
    found = troth.measure(model, given, "normalized_aopc")
    assert [each.value for each in found] == pytest.approx(
        [(values[order] - low) / (high - low) for order in tried], abs=NEAR
    )
    assert (found[0].value, found[1].value) == pytest.approx((0, 1), abs=NEAR)
    for each in found:
        assert (each.record["low"], each.record["high"]) == pytest.approx((low, high), abs=NEAR)


def test_an_encoder_as_by_brute_force_over_masked_texts():
    model, text = encoder("bert"), "a good film with great cast"
    (given,) = troth.explain(model, [text], "leave_one_out")
    subsets = (torch.arange(64)[:, None] >> torch.arange(6)) % 2
    texts = [
        " ".join("[MASK]" if gone else word for word, gone in zip(text.split(), row, strict=True))
        for row in subsets.tolist()
    ]
    ids = model.tokenizer(texts, return_tensors="pt")
    with torch.no_grad():
        p = model.model(**ids).logits.double().softmax(-1)[:, given.target].tolist()
    values = [aopc_of(order, p) for order in permutations(range(6))]
    own = aopc_of(np.argsort(-given.scores, kind="stable").tolist(), p)
    (found,) = troth.measure(model, [given], "normalized_aopc")
    assert found.value == pytest.approx((own - min(values)) / (max(values) - min(values)), abs=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_beams_of_12_units_against_all_orders_and_random_ones(seed):
    model, p = smooth(12, seed)
    low, high = formulas.aopc_bounds(p)  # of all 479,001,600 orders
    rng = np.random.default_rng(seed)
    drawn = [rng.permutation(12) for _ in range(2_000)]
    values = np.array([aopc_of(order, p) for order in drawn])
    found = score(model, text_of(12), scores_of(drawn[0]), "normalized_aopc")
    reached = found.record["low"], found.record["high"]
    assert found.record["bounds"] == "beam"
    assert low - NEAR <= reached[0] <= values.min() + NEAR
    assert values.max() - NEAR <= reached[1] <= high + NEAR
    assert reached == pytest.approx((low, high), abs=0.01 * (high - low))
    assert found.value == pytest.approx((values[0] - reached[0]) / (reached[1] - reached[0]), abs=NEAR)


def test_a_wider_beam_is_no_worse_and_one_that_holds_every_subset_is_exact():
    model, p = interacting(9)
    low, high = formulas.aopc_bounds(p)
    spans = []
    for width in (1, 5, comb(9, 4)):
        record = score(model, text_of(9), range(9), f"normalized_aopc(width={width})").record
        assert record["low"] >= low - NEAR
        assert record["high"] <= high + NEAR
        spans.append(record["high"] - record["low"])
    assert spans == sorted(spans)
    assert spans[0] < spans[1] - 1e-3  # random subsets: one order at a time is not enough
    assert spans[2] == pytest.approx(high - low, abs=NEAR)


def test_an_order_better_than_the_beams_moves_the_bound():
    model, p = interacting(9)
    missed = {}
    for sign in (1, -1):
        order = best_order(p, sign)
        found = score(model, text_of(9), scores_of(order), "normalized_aopc(width=1)")
        other = score(model, text_of(9), range(9), "normalized_aopc(width=1)")
        name = "high" if sign == 1 else "low"
        missed[name] = sign * (found.record[name] - other.record[name])
        assert found.record["aopc"] == found.record[name] == pytest.approx(aopc_of(order, p), abs=NEAR)
        assert found.value == (sign == 1)
    assert min(missed.values()) > 1e-3  # the beam alone had not found it


def best_order(p, sign):
    """The order of the highest AOPC (of the lowest one with sign −1), by a recursion of its own."""
    count = len(p).bit_length() - 1
    found = {0: (0.0, ())}
    for subset in sorted(range(1, 1 << count), key=int.bit_count):
        units = [unit for unit in range(count) if subset >> unit & 1]
        before = [(found[subset ^ 1 << unit][0], (*found[subset ^ 1 << unit][1], unit)) for unit in units]
        worth, order = max(before)
        found[subset] = worth - sign * p[subset], order
    return found[(1 << count) - 1][1]


@pytest.mark.parametrize("count", [5, 10])
def test_ties_keep_reading_order_and_signs_count(count):
    model, p = interacting(count)
    text = text_of(count)

    def value(scores):
        return score(model, text, scores, "normalized_aopc").value

    assert value([0.5] * count) == value(range(count, 0, -1))
    signed = [-2.0, 1.0, 0.0, 0.0, -1.0, *[-3.0] * (count - 5)]
    order = [1, 2, 3, 4, 0, *range(5, count)]
    assert score(model, text, signed, "normalized_aopc").record["aopc"] == pytest.approx(aopc_of(order, p), abs=NEAR)
    assert value(signed) == value(scores_of(order))
    assert value(signed) != value(np.abs(signed))


@pytest.mark.parametrize("count", [2, 8, 9])
def test_where_no_order_differs_it_is_undefined(count):
    found = score(BlackBox(lambda texts: [[0.25, 0.75]] * len(texts)), text_of(count), range(count), "normalized_aopc")
    assert np.isnan(found.value)
    assert found.why == "every order lowers the probability equally much (high = low)"
    assert found.record["low"] == found.record["high"] == 0


@pytest.mark.parametrize("count", [6, 10])
def test_rounding_errors_are_no_range(count):
    """Only how many words are left counts, up to the noise of a batch: every order is as good."""
    rng = np.random.default_rng(0)

    def predict(texts):
        p = np.array([0.1 + 0.05 * (count - text.split().count("_")) for text in texts])
        p += rng.uniform(-1e-8, 1e-8, len(p))
        return np.stack([1 - p, p], 1)

    found = score(BlackBox(predict, mask_text="_"), text_of(count), range(count), "normalized_aopc")
    assert np.isnan(found.value)
    assert "high = low" in found.why


def test_one_unit_and_none():
    model = Lookup({"[M]": LOW, "a": HIGH, "": LOW})
    one = score(model, "a", [1], "normalized_aopc")
    assert np.isnan(one.value)
    assert one.why == "an order needs two units"
    assert one.record["aopc"] == pytest.approx(0.5)
    assert score(model, "", [], "normalized_aopc").why == "the text has no units"


@pytest.mark.parametrize(("count", "gone"), [(4, 1), (12, 2), (3, 3)])
def test_of_an_erased_input_the_units_it_still_has_are_ordered(count, gone):
    model, p = interacting(count)
    whole = attribution(model, text_of(count), scores_of(np.random.default_rng(0).permutation(count)))
    base = torch.ones(count)
    base[:gone] = 0
    masking = NormalizedAopc().perturbation
    given = Attribution(whole.question.erased(base, masking), whole.scores, signed=True)
    (found,) = measure_each(Prober(model), [given], "normalized_aopc(width=300)")
    if gone == count:
        assert found.why == "an order needs two units"
        return
    left = p[(1 << gone) - 1 :: 1 << gone]  # subsets that hold the units that are gone
    order = np.argsort(-whole.scores[gone:], kind="stable")
    low, high = formulas.aopc_bounds(left)
    assert (found.record["low"], found.record["high"]) == pytest.approx((low, high), abs=NEAR)
    assert found.record["aopc"] == pytest.approx(aopc_of(order, left), abs=NEAR)
    assert found.value == pytest.approx((aopc_of(order, left) - low) / (high - low), abs=NEAR)


def asked(model, count, metric):
    prober = Prober(model)
    list(measure_each(prober, [attribution(model, text_of(count), range(count))], metric))
    return prober.cost.forward


def test_what_it_costs():
    for count, metric in ((3, "normalized_aopc"), (8, "normalized_aopc"), (9, "normalized_aopc(width=100)")):
        assert asked(interacting(count)[0], count, metric) == NormalizedAopc(width=100).passes(count) == 2**count
    model = interacting(12)[0]
    assert (
        asked(model, 12, "normalized_aopc") <= NormalizedAopc().passes(12) <= 1.5 * asked(model, 12, "normalized_aopc")
    )
    # Both beams share the first and the last round and the whole input; a round's own row is often among theirs.
    most = 1 + 12 + sum(2 * 5 * (12 - size) + 1 for size in range(1, 11)) + 1
    assert 12 * 12 < asked(model, 12, "normalized_aopc") <= most
    assert (
        asked(model, 12, "normalized_aopc(width=1)") <= 1 + 12 + sum(2 * (12 - size) + 1 for size in range(1, 11)) + 1
    )


def test_models_of_other_ranges_compare():
    """The same preferences, half as strong: AOPC halves, the normalized one stays."""
    model, p = smooth(6)
    faint = BlackBox(lambda texts: 0.25 + answers(p, texts) / 2, mask_text="_")
    order = [3, 1, 4, 0, 5, 2]
    loud = score(model, text_of(6), scores_of(order), "normalized_aopc")
    quiet = score(faint, text_of(6), scores_of(order), "normalized_aopc")
    assert quiet.record["aopc"] == pytest.approx(loud.record["aopc"] / 2)
    assert quiet.value == pytest.approx(loud.value)


def test_the_summary_has_the_bounds():
    scores = [score(interacting(count)[0], text_of(count), range(count), "normalized_aopc") for count in (10, 4, 3)]
    extra = NormalizedAopc().summarize(scores).extra
    assert extra["bounds"] == "beam and exact"
    for name in ("aopc", "low", "high"):
        assert extra[name] == pytest.approx(np.mean([each.record[name] for each in scores]))


def test_errors():
    with pytest.raises(TrothError, match="normalized_aopc: width must be at least 1, not 0"):
        NormalizedAopc(width=0)
    with pytest.raises(TrothError, match="2ⁿ subsets on the last axis, not 3"):
        formulas.aopc_bounds([0.5, 0.5, 0.5])


def test_formulas_take_many_texts_at_once():
    p = np.random.default_rng(0).uniform(size=(3, 2, 16))
    low, high = formulas.aopc_bounds(p)
    for place in np.ndindex(3, 2):
        assert (low[place], high[place]) == formulas.aopc_bounds(p[place])
    assert np.isnan(formulas.aopc_bounds([0.5])).all()  # no unit
    assert np.isnan(formulas.normalized_aopc(0.5, 0.5, 0.5))
    assert formulas.normalized_aopc(0.5, 0.6, 0.7) == 0  # below what was thought the lowest
    assert formulas.normalized_aopc(0.5, 0.2, 0.4) == 1
