from itertools import combinations
from math import comb

import numpy as np
import pytest
import torch

from asking import score
from fakes import CORPUS, Lookup, encoder, partly_erased
from troth import explain, measure
from troth.core.errors import TrothError
from troth.core.types import Attribution, Example, Question
from troth.engine.prober import Prober
from troth.metrics import never
from troth.metrics.f_fidelity import FFidelity
from troth.models import load_model
from troth.validity.stamp import stamps

# The probability of class 1: 0.75 for the whole text.
HIGH, EVEN, LOW = [0, np.log(3)], [0, 0], [np.log(3), 0]
MODEL = Lookup({"a b c": HIGH, "[M] b c": LOW, "a [M] c": EVEN, "a b [M]": HIGH})
LONG = " ".join(CORPUS[:4]).replace(",", "").replace("  ", " ")


def test_by_hand():
    # One unit of three is named. Without a: 0.25; without b or c: (0.5 + 0.75) / 2.
    found = score(MODEL, "a b c", [2, 1, 0], "f_fidelity")
    assert found.record["plus"] == pytest.approx(0.5)
    assert found.record["minus"] == pytest.approx(0.75 - 0.625)
    assert found.value == pytest.approx(0.5 - 0.125)
    assert found.record["erased_at_most"] == pytest.approx(1 / 3)  # one unit, though beta is a tenth
    assert score(MODEL, "a b c", [0, 1, 2], "f_fidelity").value == pytest.approx(0 - (0.5 + 0.25) / 2)
    # Two of three named, one of them erased at a time: (0.5 + 0.25) / 2 − 0
    assert score(MODEL, "a b c", [2, 1, 0], "f_fidelity(ratio=0.7)").value == pytest.approx(0.375)
    # Ties: the earlier unit is named.
    assert score(MODEL, "a b c", [1, 1, 1], "f_fidelity").value == pytest.approx(0.375)


def test_only_the_set_of_named_units_counts():
    model = encoder("bert")
    n_units = model.encode([Example("one", LONG)])[0].n_units
    scores = np.arange(n_units)[::-1].astype(float)
    shuffled = scores.copy()
    top = n_units // 5
    shuffled[:top] = scores[:top][::-1]
    shuffled[top:] = scores[top:][::-1]
    first, second = (score(model, LONG, one, "f_fidelity") for one in (scores, shuffled))
    assert first == second


def slow(model, given, ratio=0.2, alpha=0.5, beta=0.1, samples=50):
    """From the definition, part by part: FFid⁺, FFid⁻ and the largest share that was erased."""
    encoding, left = given.question.encoding, given.question.left.tolist()
    units = sorted((unit for unit in range(encoding.n_units) if left[unit]), key=lambda unit: -given.scores[unit])
    count = len(units)
    named = min(max(int(ratio * count + 1e-9), 1), count - 1)
    numbers = given.question.draws("f_fidelity").uniforms(samples, encoding.n_units).tolist()

    def probability(gone):
        missing = [unit for unit in range(encoding.n_units) if unit in gone or not left[unit]]
        ids = torch.where(torch.isin(encoding.units, torch.tensor(missing)), model.mask_id, encoding.ids)
        logits = model.model(input_ids=ids[None], token_type_ids=encoding.token_types[None]).logits[0].double()
        return logits.softmax(-1)[given.target].item()

    falls, sizes = [], []
    for side in (units[:named], units[named:]):
        size = max(1, min(int(alpha * len(side) + 1e-9), int(beta * count + 1e-9)))
        if comb(len(side), size) <= samples:
            parts = list(combinations(side, size))
        else:
            parts = [sorted(side, key=lambda unit, row=row: (row[unit], unit))[:size] for row in numbers]
        falls.append(probability(()) - np.mean([probability(part) for part in parts]))
        sizes.append(size)
    return *falls, max(sizes) / count


@pytest.mark.parametrize(
    "options", [{}, {"samples": 3}, {"ratio": 0.5, "beta": 0.3}, {"ratio": 0.05}, {"alpha": 1.0, "beta": 1.0}]
)
def test_it_is_the_loop_over_parts(options):
    model = encoder("bert")
    attributions = explain(model, ["a good", *CORPUS[:2], LONG], "input_x_gradient")
    metric = FFidelity(**options)
    for given, found in zip(attributions, measure(model, attributions, metric), strict=True):
        plus, minus, share = slow(model, given, **options)
        assert found.record["plus"] == pytest.approx(plus, abs=1e-5)
        assert found.record["minus"] == pytest.approx(minus, abs=1e-5)
        assert found.value == pytest.approx(plus - minus, abs=1e-5)
        assert found.record["erased_at_most"] == share


def test_the_authors_expectation_on_a_linear_model():
    """Erasing each unit of a side independently with probability min(α, β · n / m), as the authors' code does, costs as
    much on average as parts of a fixed size, where the units' effects add up and sizes need no rounding.
    """
    words = [f"w{place}" for place in range(20)]
    weights = dict(zip(words, np.random.default_rng(2).normal(0, 0.05, size=20), strict=True))

    def probabilities(texts):
        sums = [sum(weights.get(word, 0.0) for word in text.split()) for text in texts]
        return [[0.5 - one, 0.5 + one] for one in sums]

    model = load_model(probabilities, labels=["no", "yes"])
    scores = np.random.default_rng(3).normal(size=20)
    named = set(np.argsort(-scores)[:4].tolist())
    expected = []
    for side in (named, set(range(20)) - named):
        probability = min(0.5, 0.1 * 20 / len(side))
        expected.append(probability * sum(weights[words[unit]] for unit in side))
    found = score(model, " ".join(words), scores, "f_fidelity(samples=1000)")
    assert found.record["parts"] == [comb(4, 2), comb(16, 2)]
    assert [found.record["plus"], found.record["minus"]] == pytest.approx(expected)
    # A few of the parts estimate it.
    drawn = [score(model, " ".join(words), scores, "f_fidelity", seed=seed) for seed in range(20)]
    assert np.mean([one.value for one in drawn]) == pytest.approx(expected[0] - expected[1], abs=0.005)
    assert len({one.value for one in drawn}) == 20


@pytest.mark.parametrize("ratio", [0.05, 0.2, 0.5, 0.9])
def test_no_row_erases_more_than_beta(ratio):
    model = encoder("bert")
    (given,) = explain(model, [LONG], "random")
    n_units = given.question.n_units
    (probe,) = next(FFidelity(ratio=ratio).score([given.question], [given], never))
    gone = (1 - probe.keep).sum(1)
    assert gone[0] == 0
    assert 1 <= gone[1:].min() <= gone.max() <= 0.1 * n_units
    top = set(np.argsort(-given.scores, kind="stable")[: max(1, int(ratio * n_units + 1e-9))].tolist())
    for row in probe.keep[1:]:  # of one side or of the other
        erased = set(torch.nonzero(row == 0)[:, 0].tolist())
        assert erased <= top or not erased & top
    (found,) = measure(model, [given], FFidelity(ratio=ratio))
    assert found.record["erased_at_most"] == gone.max() / n_units


def test_units_that_were_erased_before_are_on_no_side():
    model = encoder("bert")
    question = partly_erased(model)
    encoding, base, masking = question.encoding, question.left, question.erased_by
    scores = np.random.default_rng(0).normal(size=encoding.n_units)
    given = Attribution(question, np.where(base.numpy() > 0, scores, 1e3), signed=True)  # they would be on top
    (found,) = Prober(model).ask(FFidelity().score([question], [given], never))
    plus, minus, share = slow(model, given)
    assert (found.record["plus"], found.record["minus"]) == pytest.approx((plus, minus), abs=1e-5)
    assert found.record["erased_at_most"] == share == 1 / base.sum()
    last = Question(encoding, 1).erased(torch.eye(encoding.n_units)[0], masking)
    assert Prober(model).ask(FFidelity().score([last], [given], never))[0].why == "named and other units need two units"


def test_special_cases():
    assert score(Lookup({"": EVEN}), "", [], "f_fidelity").why == "the text has no units"
    one = score(Lookup({"a": HIGH, "[M]": LOW}), "a", [1.0], "f_fidelity")
    assert np.isnan(one.value)
    assert one.why == "named and other units need two units"
    two = Lookup({"a b": HIGH, "[M] b": LOW, "a [M]": HIGH})
    assert score(two, "a b", [1, 0], "f_fidelity").value == pytest.approx(0.5)
    assert score(two, "a b", [0, 1], "f_fidelity").value == pytest.approx(-0.5)
    constant = Lookup(dict.fromkeys(("a b", "[M] b", "a [M]"), HIGH))
    assert score(constant, "a b", [1, 0], "f_fidelity").value == 0


def test_the_stamp_is_that_of_the_shares_it_erases():
    by_ratio = {0.0: 0.9, 0.1: 0.8, 0.2: 0.01, 0.5: 0.02, 1.0: 0.03}
    metrics = {"a": FFidelity(), "b": FFidelity(beta=0.2), "c": FFidelity(ratio=0.9, beta=0.5)}
    assert FFidelity().erased == pytest.approx((0.1, 0.1))
    assert FFidelity(beta=0.2).erased == pytest.approx((0.1, 0.2))
    assert FFidelity(ratio=0.9, beta=0.5).erased == pytest.approx((0.05, 0.45))
    found = stamps(metrics, by_ratio, "")
    assert [one.verdict for one in found.values()] == ["no evidence against", *["out of distribution"] * 2]
    assert found["a"].ratio == 0.1
    assert stamps({"d": FFidelity(masking="zero")}, by_ratio, "")["d"].verdict == "not tested"


def test_a_summary_has_both_sides_and_the_largest_share():
    model = encoder("bert")
    scores = measure(model, explain(model, ["awful", "a good film", LONG], "leave_one_out"), "f_fidelity")
    extra = FFidelity().summarize(scores).extra
    assert extra["plus"] == pytest.approx(np.mean([one.record["plus"] for one in scores[1:]]))
    assert extra["minus"] == pytest.approx(np.mean([one.record["minus"] for one in scores[1:]]))
    assert extra["erased_at_most"] == pytest.approx(1 / 3)
    assert np.isnan(FFidelity().summarize(scores[:1]).extra["erased_at_most"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio": 0.0}, "f_fidelity: ratio must be above 0, not 0.0"),
        ({"ratio": 1.0}, "f_fidelity: ratio must be below 1, or there are no other units"),
        ({"alpha": 0.0}, "f_fidelity: alpha must be above 0, not 0.0"),
        ({"beta": 1.5}, r"a ratio must lie in \[0, 1\]"),
        ({"samples": 0}, "f_fidelity: samples must be at least 1, not 0"),
        ({"masking": "erase"}, "masking"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(TrothError, match=message):
        FFidelity(**options)
