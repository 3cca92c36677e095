from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
from tests.explainers.referees import explained, questions, value

import troth
from fakes import Lookup, encoder, planted
from troth.core.draws import Draws
from troth.core.errors import TrothError
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.explainers.exact_shapley import ExactShapley
from troth.explainers.partition_shap import PartitionShap, coalition_count, grouped_orders, owen_weights, sentences
from troth.maskings.mask_token import MaskToken

LONG = "The soup was cold . Service was awful ! Why pay ? The bill was absurd . We left ."


def test_by_hand():
    # Two sentences, {good, film} and {no}: "no" joins first or last, the two words in either order.
    texts = {"Good film. No": 6, "[M] film. No": 1, "Good [M]. No": 2, "[M] [M]. No": 1}
    texts |= {"Good film. [M]": 4, "[M] film. [M]": 1, "Good [M]. [M]": 2, "[M] [M]. [M]": 0}
    values = {text.replace(".", " ."): number for text, number in texts.items()}
    words = "Good film . No"
    table = {}
    for stop in (".", "[M]"):  # the full stop is a unit of the first sentence that changes nothing
        table |= {text.replace(".", stop): [0, number] for text, number in values.items()}
    (attribution,) = troth.explain(Lookup(table), words, "partition_shap", target=1, against=0)
    # "no" first: good 1, 6 − 1 = 5 -> mean of (1, 5); film 0, 4. "no" last: good 2, 4 − 1 = 3; film 1, 2.
    assert attribution.units == ("Good", "film", ".", "No")
    assert attribution.scores == pytest.approx([(1 + 5 + 2 + 3) / 4, (0 + 4 + 1 + 2) / 4, 0, (1 + 2) / 2], abs=1e-5)
    assert attribution.note == "exact"


def slow(values, groups):
    """The mean contribution over all orders in which each group stays together."""
    gains, orders = np.zeros(len(groups)), 0
    for order in permutations(range(len(groups))):
        passed = [groups[player] for player in order]
        if sum(a != b for a, b in pairwise(passed)) + 1 > len(set(groups)):
            continue
        orders += 1
        for place, player in enumerate(order):
            gains[player] += values(frozenset(order[: place + 1])) - values(frozenset(order[:place]))
    return gains / orders


@pytest.mark.parametrize("groups", [[0, 0, 1], [0, 1, 1, 2], [0, 0, 1, 1, 1, 2], [0, 0, 0, 0], [0, 1, 2, 3]])
def test_the_weights_against_all_orders(groups):
    numbers = {}
    random = np.random.default_rng(len(groups))
    coalitions, weights = owen_weights(torch.tensor(groups))
    assert len(coalitions) == coalition_count(torch.tensor(groups))
    sets = [frozenset(np.flatnonzero(row).tolist()) for row in coalitions.numpy()]
    for one in sets:
        numbers.setdefault(one, random.normal())
    found = weights.T.numpy() @ [numbers[one] for one in sets]
    assert found == pytest.approx(slow(numbers.__getitem__, groups))


def test_on_a_random_model_with_two_texts():
    example = Example("0", "Good film. Not bad", text_pair="A book")
    model = encoder()
    (encoding,) = model.encode([example], "word")
    question = Question(encoding, 1)
    groups = sentences(encoding).tolist()
    assert len(set(groups)) == len({(groups[unit], encoding.unit_segments[unit]) for unit in range(len(groups))})
    (attribution,) = explained(PartitionShap(), [question])

    def kept(units):
        return value(model, question, [unit for unit in range(question.n_units) if unit not in units])

    assert attribution.scores == pytest.approx(slow(kept, groups), abs=1e-5)
    assert attribution.scores.sum() == pytest.approx(kept(range(question.n_units)) - kept([]), abs=1e-5)


def test_one_sentence_or_one_unit_each_is_the_shapley_value():
    for texts, units in [(["a good film , not bad"], "word"), (["Good . Bad film ! Why ? Not the book ."], "sentence")]:
        asked = questions(texts=texts, units=units)
        (one,), (other,) = explained(PartitionShap(), asked), explained(ExactShapley(), asked)
        assert one.scores == pytest.approx(other.scores, abs=1e-5)


def test_orders_keep_sentences_together_and_are_all_equally_likely():
    orders = grouped_orders(torch.tensor([0, 0, 1, 2]), 6000, Draws(1))
    seen, counts = torch.unique(orders, dim=0, return_counts=True)
    assert len(seen) == 12  # 3! orders of sentences, twice
    assert all(abs(row.index(0) - row.index(1)) == 1 for row in seen.tolist())
    assert counts.numpy() == pytest.approx(500, abs=5 * 500**0.5)


def test_sampled_it_comes_near_and_stays_complete():
    (question,) = questions(texts=["Good film . Not bad , honestly"])
    (exact,) = explained(PartitionShap(), [question])
    assert exact.note == "exact"
    asked = [Question(question.encoding, 1, seed=seed) for seed in range(20)]
    errors = []
    for samples in (14, 84):
        runs = explained(PartitionShap(samples), asked)
        for run in runs:
            assert run.scores.sum() == pytest.approx(exact.scores.sum(), abs=1e-5)
        spread = np.std([run.scores for run in runs], axis=0) / np.sqrt(20)
        assert (np.abs(np.mean([run.scores for run in runs], axis=0) - exact.scores) < 5 * spread + 1e-4).all()
        errors.append(float(np.sqrt(np.mean([(run.scores - exact.scores) ** 2 for run in runs]))))
    assert errors[0] > 1.5 * errors[1]


def test_it_asks_at_most_what_it_says():
    prober = Prober(encoder())
    (question,) = questions(texts=[LONG])
    attribution = prober.ask(PartitionShap(200).ask([question]))[0]
    count = question.n_units
    assert prober.cost.forward <= 200 // (2 * count) * 2 * count + 2
    assert f"{200 // (2 * count) * 2 * count} of 200 samples" in attribution.note


def test_what_is_erased_already_does_not_play():
    (question,) = questions(texts=["Good film . Not bad"])
    question = question.erased(torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0]), MaskToken())
    (attribution,) = explained(PartitionShap(), [question])
    left, groups = [0, 2, 3], [0, 0, 1]

    def kept(units):
        return value(encoder(), question, [1, 4, *(unit for place, unit in enumerate(left) if place not in units)])

    assert attribution.scores[left] == pytest.approx(slow(kept, groups), abs=1e-5)
    assert attribution.scores[[1, 4]] == pytest.approx(0)


def test_the_planted_word_comes_first():
    (attribution,) = troth.explain(planted("awful"), LONG, "partition_shap(samples=100)", target=1)
    assert attribution.units[int(attribution.scores.argmax())] == "awful"


def test_bad_options():
    with pytest.raises(TrothError, match="partition_shap: samples must be at least 2, not 1"):
        PartitionShap(samples=1)
    with pytest.raises(TrothError, match="partition_shap: tolerance must be above 0"):
        PartitionShap(tolerance=0.0)
