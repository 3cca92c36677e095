"""Every metric on every example kind: records are plain data, and a summary made from stored ones is the same."""

import json

import numpy as np
import pytest

from fakes import CORPUS, encoder
from troth import explain, measure
from troth.core import catalog
from troth.core.types import Example, Score

EXAMPLES = [
    Example(id="pair", text="a good film", text_pair="the plot was dull", label=1, rationale=((2, 6),)),
    Example(id="word", text="good", label=0, rationale=((0, 4),)),
    Example(id="empty", text="", label=0, rationale=()),
    Example(id="long", text=CORPUS[2], label=2, rationale=((4, 8),)),
]


@pytest.mark.parametrize("name", catalog.names("metrics"))
def test_a_summary_from_stored_records_is_the_same(name):
    model, metric = encoder("bert"), catalog.build("metrics", name)
    scores = measure(model, [explain(model, [example], "leave_one_out")[0] for example in EXAMPLES], metric)
    assert all(score.why for score in scores if np.isnan(score.value))
    assert scores[2].why == "the text has no units"
    stored = [Score(**json.loads(json.dumps({"value": s.value, "record": s.record, "why": s.why}))) for s in scores]
    fresh, again = metric.summarize(scores), metric.summarize(stored)
    np.testing.assert_equal(json.loads(json.dumps(fresh.extra)), json.loads(json.dumps(again.extra)))
    np.testing.assert_equal((fresh.value, fresh.low, fresh.high), (again.value, again.low, again.high))
    assert sum(again.undefined.values()) >= 1


@pytest.mark.parametrize("name", catalog.names("metrics"))
def test_no_scores_at_all(name):
    summary = catalog.build("metrics", name).summarize([])
    assert np.isnan(summary.value)
    assert summary.count == 0
