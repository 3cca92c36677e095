"""recursive_erasure explains the gold class where there is one, by the data set's metric, and says both."""

import json

import numpy as np
import pytest

import troth
from fakes import Lookup
from troth.core import catalog
from troth.core.types import Attribution, Example
from troth.data import Data, load_data
from troth.metrics.recursive_erasure import RecursiveErasure
from troth.performance import performance_of
from troth.sweep.bench import plan_of
from troth.sweep.context import Context

STEPS = "recursive_erasure(step=0.5)"
# Predicted is class 1. "a" speaks for class 1 and against class 0, "b" the other way round.
TABLE = {"a b": [1, 2], "[M] b": [3, 0], "a [M]": [0, 3], "[M] [M]": [0.5, 0]}
MODEL = Lookup({text: [float(logit) for logit in logits] for text, logits in TABLE.items()})


def p(text, chosen):
    logits = np.array(TABLE[text], dtype=float)
    return float(np.exp(logits[chosen]) / np.exp(logits).sum())


def measured(label, metric=STEPS, target="predicted", explainer="leave_one_out"):
    attributions = troth.explain(MODEL, [Example("x", "a b", label=label)], explainer, target=target)
    return troth.measure(MODEL, attributions, metric)[0]


def test_the_gold_class_is_explained_and_measured():
    found = measured(label=0)
    # For class 0 b matters most, so it goes first; the explanation of the predicted class would erase a.
    assert found.record["p_explained"] == pytest.approx([p("a b", 0), p("a [M]", 0), p("[M] [M]", 0)])
    assert {name: found.record[name] for name in ("label", "label_is", "target", "target_is", "performance")} == {
        "label": 0, "label_is": "gold", "target": 0, "target_is": "gold", "performance": "accuracy",
    }  # fmt: skip
    assert found.value == measured(label=0, target="gold").value
    json.dumps(dict(found.record))


def test_without_a_label_the_predicted_class_is_and_that_is_said():
    found = measured(label=None)
    assert found.record["p_explained"] == pytest.approx([p("a b", 1), p("[M] b", 1), p("[M] [M]", 1)])
    assert [found.record[name] for name in ("label", "label_is", "target_is")] == [1, "predicted", "predicted"]
    extra = RecursiveErasure(step=0.5).summarize([found, measured(label=0)]).extra
    assert [extra[name] for name in ("target_is", "label_is", "performance")] == [
        "gold and predicted", "gold and predicted", "accuracy",
    ]  # fmt: skip


def test_the_class_given_on_request():
    found = measured(label=0, metric="recursive_erasure(step=0.5, target=given)")
    assert found.record["p_explained"] == pytest.approx([p("a b", 1), p("[M] b", 1), p("[M] [M]", 1)])
    assert [found.record[name] for name in ("label", "target_is")] == [0, "predicted"]


def test_an_order_computed_once_is_that_of_the_gold_class():
    metric = "recursive_erasure(step=0.5, recompute=False)"
    found = measured(label=0, metric=metric, explainer="beam_search")
    assert found.record["explained"] == [1, 1, 0]  # b, then all
    # Scores from outside cannot be made again, so they serve as they are.
    outside = Attribution.from_scores(MODEL, Example("x", "a b", label=0), [2.0, 1.0], target=1)
    (found,) = troth.measure(MODEL, [outside], metric)
    assert found.record["p_explained"] == pytest.approx([p("a b", 1), p("[M] b", 1), p("[M] [M]", 1)])
    assert found.record["target_is"] == "predicted"


def test_the_data_sets_metric_is_in_the_spec_and_in_the_score():
    cola = Data("cola", [Example("x", "a b", label=0)], ("negative", "positive"))
    assert performance_of(cola) == "matthews" == catalog.find("data", "cola").metric
    assert performance_of(Data("cola.csv", [], ())) is None
    assert performance_of(load_data("reviews", limit=1)) is None  # accuracy
    metric = RecursiveErasure(step=0.5).settled([], cola)
    assert catalog.spec(metric) == "recursive_erasure(step=0.5, performance='matthews')"
    assert measured(label=0, metric=metric).record["performance"] == "matthews"
    assert RecursiveErasure(performance="micro_f1").settled([], cola).performance == "micro_f1"  # as said
    plan = plan_of(Context(), "embedded", cola, ["gradient"], ["recursive_erasure"])
    assert {cell.specs["metric"] for cell in plan.of("metric")} == {"recursive_erasure(performance='matthews')"}


def test_the_summary_is_by_that_metric():
    record = {"ratios": [0, 0.5, 1], "label": 1, "explained": [1, 0, 0], "random": [1, 1, 0]}
    scores = [
        troth.Score(0.0, record),
        troth.Score(0.0, {**record, "label": 0, "explained": [0, 1, 0]}),
    ]
    summary = RecursiveErasure(performance="matthews").summarize(scores)
    assert summary.extra["performance"] == "matthews"
    assert summary.extra["explained"] == pytest.approx([1, -1, 0])
    assert RecursiveErasure().summarize(scores).extra["explained"] == pytest.approx([1, 0, 0.5])
