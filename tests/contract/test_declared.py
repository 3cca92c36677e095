"""What a method declares of itself is what it does: nothing is guessed from names of fields or overridden methods."""

import numpy as np
import pytest

import troth
from fakes import CORPUS, encoder
from troth.core import catalog
from troth.core.types import Example
from troth.engine.prober import Prober
from troth.explainers import Explainer
from troth.metrics import Erasing
from troth.verbs.measure import measure_each

EXPLAINERS = [name for name in catalog.names("explainers") if not catalog.required("explainers", name)]
EXAMPLES = [Example(str(place), text, label=0, rationale=((0, 4),)) for place, text in enumerate(CORPUS[:4])]


@pytest.mark.parametrize("name", EXPLAINERS)
def test_only_what_learns_needs_the_texts_first(name):
    model = encoder("bert")
    asker, encodings = Prober(model), model.encode(EXAMPLES)
    method: Explainer = catalog.build("explainers", name)
    prepared, unprepared = method.prepare(asker, encodings), method.prepare(asker, [])
    questions = [attribution.question for attribution in troth.explain(model, EXAMPLES, "random")]
    first, second = (
        [Prober(model).ask(some.ask([question]))[0].scores for question in questions] for some in (prepared, unprepared)
    )
    same = all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))
    assert same != method.learns


@pytest.mark.parametrize("name", catalog.names("metrics"))
def test_a_metric_that_erases_says_so(name, monkeypatch):
    model = encoder("bert")
    metric = catalog.build("metrics", name)
    attributions = troth.explain(model, EXAMPLES, "gradient")  # which erases nothing where a metric explains again
    erased, start = [], Prober._start

    def spied(self, ready):
        started = start(self, ready)
        erased.extend(bool((probe.batch().keep < 1).any()) for one in ready for probe in one.probes)
        return started

    monkeypatch.setattr(Prober, "_start", spied)
    scores = list(measure_each(Prober(model), attributions, metric))
    assert any(erased) == isinstance(metric, Erasing)
    mean = np.nanmean([score.value for score in scores])
    assert (metric.summarize(scores).value == pytest.approx(mean)) != metric.pooled
