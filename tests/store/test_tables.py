import math

import numpy as np
import pytest

from fakes import CORPUS, encoder
from troth.core.errors import TrothError
from troth.core.types import Example, Score
from troth.store.tables import (
    attributions_to_table,
    examples_to_table,
    scores_to_table,
    table_to_attributions,
    table_to_examples,
    table_to_scores,
)
from troth.verbs.explain import explain
from troth.verbs.measure import measure

EXAMPLES = [
    Example("one", CORPUS[0], label=2, rationale=((2, 6), (20, 25))),
    Example("two", CORPUS[1], text_pair="a good film", label="LABEL_1", rationale=()),
    Example("three", "naïve 😀 text\nwith lines", label=None),
    Example("four", "", label="unheard of"),
]


def test_examples_come_back_as_they_were():
    assert table_to_examples(examples_to_table(EXAMPLES)) == EXAMPLES
    assert table_to_examples(examples_to_table([])) == []


def test_attributions_come_back_as_they_were():
    model = encoder()
    made = explain(
        model, EXAMPLES, "integrated_gradients(steps=3)", against="predicted", segments="both", seed=5, target=0
    )
    table = attributions_to_table(made)
    read = model.encode(EXAMPLES, segments="both")
    back = table_to_attributions(model, read, table, explainer="integrated_gradients(steps=3)", seed=5)
    for before, after in zip(made, back, strict=True):
        assert np.array_equal(before.scores, after.scores)
        assert before.scores.dtype == after.scores.dtype
        assert (after.target, after.question.against, after.question.seed) == (0, before.question.against, 5)
        assert (after.units, after.spans, after.signed) == (before.units, before.spans, before.signed)
        assert (after.rest, after.gap, after.model, after.labels) == (
            before.rest,
            before.gap,
            before.model,
            before.labels,
        )
        assert after.probabilities == pytest.approx(before.probabilities, abs=1e-7)
    assert table.column("label").to_pylist() == [2, 1, None, None]
    assert table.column("segments").to_pylist()[1][-1] == 1


def test_a_stored_explanation_measures_like_a_fresh_one():
    model = encoder()
    fresh = explain(model, CORPUS, "leave_one_out")
    read = model.encode(attribution.example for attribution in fresh)
    stored = table_to_attributions(model, read, attributions_to_table(fresh), explainer="leave_one_out")
    for metric in ("comprehensiveness", "recursive_erasure"):
        before, after = measure(model, fresh, metric), measure(model, stored, metric)
        assert [score.value for score in before] == [score.value for score in after]


def test_other_units_than_those_stored_are_refused():
    model = encoder()
    table = attributions_to_table(explain(model, [Example("e", "a good film")], "random"))
    with pytest.raises(
        TrothError, match="example e: the model reads 4 units, but the stored explanation scores 3 different ones"
    ):
        table_to_attributions(model, model.encode([Example("e", "a very good film")]), table)
    with pytest.raises(TrothError, match="example e was explained, but it is not among"):
        table_to_attributions(model, model.encode([Example("f", "a good film")]), table)


def test_scores_come_back_as_they_were():
    scores = [
        Score(0.1 + 0.2, {"p_full": np.float32(0.5), "curve": np.arange(3), "label": "é"}),
        Score(math.nan, {}, "the text has no units"),
        Score(-1e-300, {"nested": {"tp": 1}, "flags": [True, None]}),
    ]
    table = scores_to_table(["a", "b", "c"], scores)
    back = table_to_scores(table)
    assert [score.value for score in back if not math.isnan(score.value)] == [0.1 + 0.2, -1e-300]
    assert math.isnan(back[1].value)
    assert back[1].why == "the text has no units"
    assert back[0].record == {"p_full": 0.5, "curve": [0, 1, 2], "label": "é"}
    assert back[2].record == {"nested": {"tp": 1}, "flags": [True, None]}
    assert table.column("value").null_count == 1  # SQL's avg leaves it out


def test_a_record_that_cannot_be_stored_is_told():
    with pytest.raises(TypeError, match="plain values and arrays, not object"):
        scores_to_table(["a"], [Score(0.0, {"thing": object()})])
