"""On a model whose truth is known the true explanation gets the best value of a metric, the reversed one the worst."""

from itertools import permutations

import numpy as np
import pytest

from asking import STRENGTHS, TEXT, TRUTH, Additive, Fixed, attribution
from troth.core import catalog
from troth.metrics.rationale_agreement import RationaleAgreement
from troth.verbs.measure import measure

MODEL = Additive(STRENGTHS)
REVERSED = [2.0, -0.5, 0.5, -1.0, 4.0]  # the strongest word gets the lowest score, and so on
EVERY_ORDER = list(permutations(sorted(TRUTH)))
RANKED = [
    "comprehensiveness(ratio=0.4)",
    "sufficiency(ratio=0.4)",
    "log_odds(ratio=0.4)",
    "aopc_comprehensiveness",
    "aopc_sufficiency",
    "aopc_log_odds",
    "normalized_aopc",
    "normalized_comprehensiveness",
    "normalized_sufficiency",
    "decision_flip",
    "insertion",
    "deletion",
    "importance_correlation",
    "leave_one_out_correlation",
    "leave_one_out_correlation(kind=pearson)",
    "linear_score",
    "f_fidelity(ratio=0.4)",
    # Fading by a fixed share is the expectation of the random mask, so that no draw blurs the order.
    "soft_sufficiency(masking=zero, scores=min_max)",
    "soft_comprehensiveness(masking=zero, scores=min_max)",
    "soft_sufficiency(masking=attention, retention=0.4)",
    "soft_comprehensiveness(masking=zero, retention=auc)",
]


def values(metric, orders=EVERY_ORDER, **options):
    attributions = [attribution(MODEL, TEXT, scores, **options) for scores in (TRUTH, REVERSED, *orders)]
    return np.array([score.value for score in measure(MODEL, attributions, metric)])


@pytest.mark.parametrize("metric", RANKED)
def test_of_all_orders_the_true_one_is_best_and_the_reversed_one_worst(metric):
    better = catalog.build("metrics", metric).higher_is_better
    truth, inverted, *others = values(metric) if better else -values(metric)
    assert truth == pytest.approx(max(others))
    assert inverted == pytest.approx(min(others))
    assert truth > np.mean(others) + 1e-3 > inverted + 2e-3  # a random one lies between


def test_the_metrics_named_here_are_all_that_rank_and_ask_a_fixed_model():
    apart = {"infidelity", "monotonicity", "rationale_agreement", "recursive_erasure", "sensitivity", "sparsity"}
    assert {catalog.parse(metric)[0] for metric in RANKED} | apart == set(catalog.names("metrics"))


@pytest.mark.parametrize("metric", ["soft_sufficiency", "soft_comprehensiveness"])
def test_drawn_masks_agree_with_what_they_expect(metric):
    truth, inverted, *others = values(f"{metric}(samples=300, scores=min_max)", EVERY_ORDER[:20])
    assert truth > np.mean(others) + 0.05 > inverted + 0.1


def test_recursive_erasure():
    orders = [TRUTH, REVERSED, *EVERY_ORDER]
    found = [
        measure(MODEL, [attribution(MODEL, TEXT, scores)], "recursive_erasure", explainer=Fixed(tuple(scores)))[0].value
        for scores in orders
    ]
    assert found[0] == pytest.approx(max(found[2:]))
    assert found[1] == pytest.approx(min(found[2:]))


def test_infidelity_is_zero_for_the_truth_and_largest_for_its_opposite():
    orders = [TRUTH, [-score for score in TRUTH], *EVERY_ORDER]
    found = [measure(MODEL, [attribution(MODEL, TEXT, scores)], "infidelity")[0].value for scores in orders]
    assert found[0] == pytest.approx(0, abs=1e-9)
    assert found[1] == pytest.approx(max(found))
    assert found[0] < np.mean(found[2:]) < found[1]


def test_rationale_agreement():
    marked = ((5, 9), (15, 20))  # good, great
    scored = values(RationaleAgreement(top=2), rationale=marked)
    assert scored[0] == 1 == max(scored)
    assert scored[1] == 0 == min(scored)
    assert 0 < scored[2:].mean() < 1
