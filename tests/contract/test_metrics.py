"""Every metric on every kind of model: the same alone and in company, at any batch size, the model left as it was."""

import numpy as np
import pytest
import torch

import fakes
import troth
from kinds import KIND_CASES, TEXTS, close, fingerprint_of, model_of, readable, refusals
from troth.core import catalog
from troth.core.types import Example, Score
from troth.engine.prober import Prober
from troth.verbs.measure import measure_each

METRICS = catalog.names("metrics")
LABELLED = [
    Example(example.id, example.text, example.text_pair, example.label or 0, rationale=((0, 3),)) for example in TEXTS
]


def run(kind, name):
    model = model_of(kind)
    attributions = troth.explain(model, readable(kind, LABELLED), "leave_one_out")
    with refusals("metrics", kind, name):
        return model, attributions, troth.measure(model, attributions, name)


@pytest.mark.parametrize("kind", KIND_CASES)
@pytest.mark.parametrize("name", METRICS)
def test_metric(kind, name):
    before = fingerprint_of(kind)
    model, attributions, together = run(kind, name)
    for score in together:
        assert isinstance(score, Score)
        assert np.isfinite(score.value) or score.why
    alone = [troth.measure(model, [attribution], name)[0] for attribution in attributions]
    tight = Prober(model, memory=1, window=2)
    backwards = list(measure_each(tight, attributions[::-1], name))[::-1]
    for others in (alone, backwards):
        close(values(together), values(others))
    summary = catalog.build("metrics", name).summarize(together)
    assert summary.count == sum(np.isfinite(score.value) for score in together)
    assert (np.isnan(summary.value) and summary.undefined) or summary.low <= summary.high
    assert fingerprint_of(kind) == before


@pytest.mark.parametrize("name", METRICS)
def test_a_seed_that_repeats_another_changes_no_summary(name):
    _, _, scores = run("bert", name)
    metric = catalog.build("metrics", name)
    once, twice = metric.summarize(scores), metric.summarize(scores, scores)
    np.testing.assert_allclose([twice.value, twice.low, twice.high], [once.value, once.low, once.high])
    assert (twice.count, twice.undefined) == (once.count, once.undefined)
    assert twice.extra.keys() == once.extra.keys()
    for said, expected in ((twice.extra[key], once.extra[key]) for key in once.extra):
        if isinstance(expected, str):
            assert said == expected
        else:
            np.testing.assert_allclose(said, expected)


def values(scores):
    return np.nan_to_num(np.array([score.value for score in scores]), nan=-99.0)


@pytest.mark.parametrize("name", METRICS)
def test_empty_and_one_word_texts(name):
    model = fakes.encoder("bert")
    examples = [Example("empty", "", label=0, rationale=()), Example("one", "awful", label=0, rationale=((0, 5),))]
    empty, one = troth.measure(model, troth.explain(model, examples, "leave_one_out"), name)
    assert np.isnan(empty.value)
    assert empty.why
    assert np.isfinite(one.value) or one.why


@pytest.mark.parametrize("name", [name for name in METRICS if "soft" in name])
def test_out_of_memory_in_the_middle_changes_no_soft_score(name, monkeypatch):
    model = fakes.encoder("bert")
    attributions = troth.explain(model, LABELLED, "leave_one_out")
    spec = f"{name}(samples=4)"
    expected = troth.measure(model, attributions, spec)
    original, failures = type(model).forward, []

    def scarce(self, rows, **options):
        if len(rows) > 3:
            failures.append(len(rows))
            raise torch.OutOfMemoryError("planted")
        return original(self, rows, **options)

    monkeypatch.setattr(type(model), "forward", scarce)
    close(values(troth.measure(model, attributions, spec)), values(expected))
    assert failures
