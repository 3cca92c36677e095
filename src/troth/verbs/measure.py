"""`measure`: asks a metric about every attribution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Attribution, Question, Score
from troth.engine.looks import Ask
from troth.engine.prober import Prober
from troth.engine.targets import gold_class
from troth.explainers import Explainer, SignedExplainer
from troth.metrics import Explain, Metric
from troth.models import TextClassifier, load_model


def measure(
    model: Any,
    attributions: Iterable[Attribution],
    metric: str | Metric,
    *,
    explainer: str | Explainer | None = None,
    masking: str = "mask_token",
    seed: int = 0,
) -> list[Score]:
    """One score per attribution.

    Metrics that explain again use `explainer`, or else the one each attribution was made with: absolute scores where
    the attribution's are (`.magnitude()`).
    """
    attributions = list(attributions)
    prober = Prober(load_model(model), masking)
    return list(measure_each(prober, attributions, metric, explainer=explainer, seed=seed))


def measure_each(
    prober: Prober,
    attributions: Sequence[Attribution],
    metric: str | Metric,
    *,
    explainer: str | Explainer | None = None,
    seed: int = 0,
) -> Iterator[Score]:
    """As `measure`, one score at a time."""
    judge = catalog.build("metrics", metric)
    name = catalog.name_of(judge)
    prepared: dict[str, tuple[Metric, Explain]] = {}

    def again(attribution: Attribution) -> tuple[Metric, Explain]:
        method = _explainer_of(attribution) if explainer is None else catalog.build("explainers", explainer)
        key = "" if method is None else catalog.spec(method, full=True)
        if key not in prepared:
            explain = _explain_with(prober, method, name, [one.question.encoding for one in attributions])
            prepared[key] = (judge if method is None else judge.for_explainer(method)), explain
        return prepared[key]

    def asks() -> Iterator[Ask[Score]]:
        for attribution in attributions:
            _check(prober.model, attribution, judge, name)
            question = attribution.question
            metric_of_it, explain = again(attribution) if judge.explains_again else (judge, _never)
            yield metric_of_it.ask(_with_seed(question, seed), attribution, explain)

    yield from prober.run(asks())


def _never(question: Question) -> Ask[Attribution]:
    raise AssertionError("a metric that explains again says so: explains_again = True")


def _with_seed(question: Question, seed: int) -> Question:
    return Question(question.encoding, question.target, question.against, question.base, question.erased_by, seed)


def _explainer_of(attribution: Attribution) -> Explainer | None:
    """What the attribution was made with, absolute where its scores are; None where they came from outside."""
    if not attribution.explainer:
        return None
    method: Explainer = catalog.build("explainers", attribution.explainer)
    if isinstance(method, SignedExplainer) and not attribution.signed:
        return replace(method, absolute=True)
    return method


def _explain_with(prober: Prober, method: Explainer | None, metric: str, encodings: Sequence[Any]) -> Explain:
    if method is None:

        def refuse(question: Question) -> Ask[Attribution]:
            raise TrothError(
                f"{metric} explains again at every step, but these scores came from outside; "
                "pass explainer=…, or use a metric that only reads the scores"
            )

        return refuse
    return method.prepare(prober, encodings).ask


def _check(model: TextClassifier, attribution: Attribution, metric: Metric, name: str) -> None:
    example = attribution.example
    if attribution.model and attribution.model != model.fingerprint:
        raise TrothError(
            f"example {example.id} was explained on another model ({attribution.model}, not {model.fingerprint}); "
            "measure an attribution on the model it explains"
        )
    if metric.needs_label:
        gold_class(model.labels, example)
    if metric.needs_rationale and example.rationale is None:
        raise TrothError(f"{name} compares with human rationales, but example {example.id} has none")
