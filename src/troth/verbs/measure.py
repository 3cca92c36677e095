"""`measure`: asks a metric about every attribution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, overload

from troth.core import arguments, catalog
from troth.core.errors import TrothError
from troth.core.progress import track
from troth.core.results import Scores
from troth.core.types import Attribution, Question, Score
from troth.engine.looks import Ask
from troth.engine.many import AskMany
from troth.engine.prober import Prober
from troth.engine.targets import gold_class, gold_labels
from troth.explainers import Explainer, SignedExplainer
from troth.metrics import Explain, Metric, never, require_outputs
from troth.models import TextClassifier, load_model


@overload
def measure(
    model: Any,
    attributions: Iterable[Attribution],
    metric: str | Metric,
    *,
    explainer: str | Explainer | None = ...,
    masking: str = ...,
    seed: int = ...,
    progress: bool = ...,
) -> Scores: ...


@overload
def measure(
    model: Any,
    attributions: Iterable[Attribution],
    metric: Iterable[str | Metric],
    *,
    explainer: str | Explainer | None = ...,
    masking: str = ...,
    seed: int = ...,
    progress: bool = ...,
) -> dict[str, Scores]: ...


@arguments.typed(
    attributions="what explain gives: a list of attributions", metric="a name, an object, or a list of them"
)
def measure(
    model: Any,
    attributions: Iterable[Attribution] | Attribution,
    metric: str | Metric | Iterable[str | Metric],
    *,
    explainer: str | Explainer | None = None,
    masking: str = "mask_token",
    seed: int = 0,
    progress: bool = True,
) -> Scores | dict[str, Scores]:
    """One score per attribution; several metrics give a dict of such lists, by the spec of each.

    Metrics that explain again use `explainer`, or else the one each attribution was made with: absolute scores where
    the attribution's are (`.magnitude()`). `progress` is a bar on a terminal or in a notebook.
    """
    if isinstance(attributions, Attribution):
        attributions = [attributions]
    attributions, classifier = list(attributions), load_model(model)
    for attribution in attributions:
        arguments.of_kind("each of attributions", attribution, Attribution, "an Attribution")

    def scores(judge: Metric) -> Scores:
        # A prober for each metric: what one has asked would change how the next one's rows are batched.
        each = measure_each(Prober(classifier, masking), attributions, judge, explainer=explainer, seed=seed)
        tracked = track(each, len(attributions), catalog.spec(judge), shown=progress)
        return Scores(tracked, catalog.spec(judge), [attribution.example.id for attribution in attributions])

    if isinstance(metric, str | Metric):
        return scores(catalog.build("metrics", metric))
    judges = catalog.by_spec("metrics", metric)
    require_outputs(judges.values(), classifier)
    return {name: scores(judge) for name, judge in judges.items()}


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
    require_outputs([judge], prober.model)
    name = catalog.name_of(judge)
    prepared: dict[tuple[str, bool] | None, tuple[Metric, Explainer | None]] = {}

    def again(attribution: Attribution) -> tuple[Metric, Explainer | None]:
        """The metric and what it explains again with."""
        if not judge.explains_again:
            return judge, None
        made_with = (attribution.explainer, attribution.signed) if explainer is None else None
        if made_with not in prepared:
            method = _explainer_of(attribution) if explainer is None else catalog.build("explainers", explainer)
            encodings = [each.question.encoding for each in attributions]
            settled = judge if method is None else judge.for_explainer(method)
            prepared[made_with] = settled, None if method is None else method.prepare(prober, encodings)
        return prepared[made_with]

    def asks() -> Iterator[Ask[Score]]:
        for attribution in attributions:
            _check(prober.model, attribution, judge, name)
            settled, method = again(attribution)
            explain = method.ask if method is not None else _refusing(name) if judge.explains_again else never
            yield settled.score(_seeded(attribution.question, seed), attribution, explain)

    def asks_of_many() -> Iterator[AskMany[list[Score]]]:
        most = -(-prober.window // prober.shifts)
        for start in range(0, len(attributions), most):
            some = attributions[start : start + most]
            for attribution in some:
                _check(prober.model, attribution, judge, name)
            yield settled.ask_many([_seeded(each.question, seed) for each in some], some, method)

    made = {(attribution.explainer, attribution.signed) for attribution in attributions}
    if attributions and (len(made) == 1 or not judge.explains_again or explainer is not None):
        settled, method = again(attributions[0])
        if settled.asks_many(attributions, method, prober.masking):
            yield from chain.from_iterable(prober.run_many(asks_of_many()))
            return
    yield from prober.run(asks())


def _seeded(question: Question, seed: int) -> Question:
    return question if question.seed == seed else replace(question, seed=seed)


def _explainer_of(attribution: Attribution) -> Explainer | None:
    """What the attribution was made with, absolute where its scores are; None where they came from outside."""
    if not attribution.explainer:
        return None
    method: Explainer = catalog.build("explainers", attribution.explainer)
    if isinstance(method, SignedExplainer) and not attribution.signed:
        return replace(method, absolute=True)
    return method


def _refusing(metric: str) -> Explain:
    def refuse(question: Question) -> Ask[Attribution]:
        raise TrothError(
            f"{metric} explains again at every step, but these scores came from outside; "
            "pass explainer=…, or use a metric that only reads the scores"
        )

    return refuse


def require_model_of(attribution: Attribution, model: TextClassifier) -> None:
    """One line where an attribution explains another model."""
    if attribution.model and attribution.model != model.fingerprint:
        raise TrothError(
            f"example {attribution.example.id} was explained on another model ({attribution.model}, not "
            f"{model.fingerprint}); measure an attribution on the model it explains"
        )


def _check(model: TextClassifier, attribution: Attribution, metric: Metric, name: str) -> None:
    example = attribution.example
    require_model_of(attribution, model)
    if metric.needs_label:
        _ = gold_labels(model.labels, example) if model.outputs == "labels" else gold_class(model.labels, example)
    if metric.needs_rationale and example.rationale is None:
        raise TrothError(f"{name} compares with human rationales, but example {example.id} has none")
