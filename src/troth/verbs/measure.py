"""`measure`: computes metrics for every attribution."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, groupby, islice
from typing import Any, overload

from troth.core import arguments, catalog, user_code
from troth.core.errors import TrothError
from troth.core.progress import track
from troth.core.results import Scores
from troth.core.types import Attribution, Question, Score
from troth.engine.prober import Prober
from troth.engine.routines import Routine
from troth.explainers import Explainer, SignedExplainer
from troth.metrics import Explain, Metric, never, require_outputs
from troth.models import TextClassifier, load_model
from troth.models.targets import gold_class, gold_labels
from troth.verbs.explain import batches_by_cost
from troth.verbs.methods import EXPLAINERS, METRICS, GivenMetric
from troth.verbs.own_metrics import OwnMetric


@overload
def measure(
    model: Any,
    attributions: Iterable[Attribution],
    metric: GivenMetric,
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
    metric: Iterable[GivenMetric],
    *,
    explainer: str | Explainer | None = ...,
    masking: str = ...,
    seed: int = ...,
    progress: bool = ...,
) -> dict[str, Scores]: ...


@arguments.typed(
    attributions="what explain gives: a list of attributions", metric="a name, an object, a function, or a list of them"
)
def measure(
    model: Any,
    attributions: Iterable[Attribution] | Attribution,
    metric: GivenMetric | Iterable[GivenMetric],
    *,
    explainer: str | Explainer | None = None,
    masking: str = "mask_token",
    seed: int = 0,
    progress: bool = True,
) -> Scores | dict[str, Scores]:
    """Returns one score per attribution; several metrics return a dict of such lists, by the spec of each.

    Metrics that re-explain use `explainer`, or by default the method each attribution was made with; absolute scores if
    the attribution has absolute scores (`.magnitude()`). `progress` shows a progress bar on a terminal or in a
    notebook.
    """
    if isinstance(attributions, Attribution):
        attributions = [attributions]
    attributions, classifier = list(attributions), load_model(model)
    for attribution in attributions:
        arguments.of_kind("each of attributions", attribution, Attribution, "an Attribution")

    def scores(judge: Metric) -> Scores:
        # One prober per metric: the requests of one metric would change how those of the next are batched.
        each = measure_each(Prober(classifier, masking), attributions, judge, explainer=explainer, seed=seed)
        tracked = track(each, len(attributions), catalog.spec(judge), shown=progress)
        return Scores(tracked, catalog.spec(judge), [attribution.example.id for attribution in attributions])

    if isinstance(metric, str | Metric) or callable(metric):
        return scores(METRICS.method(metric).instance)
    judges = METRICS.by_name(metric)
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
    """As `measure`, but yields one score at a time."""
    judge = catalog.build("metrics", metric)
    require_outputs([judge], prober.model)
    if isinstance(judge, OwnMetric):
        judge = replace(judge, model=prober.model)
    name = catalog.name_of(judge)
    for attribution in attributions:
        _check(prober.model, attribution, judge, name)

    def made_with(attribution: Attribution) -> tuple[str, bool] | None:
        """The method that re-explains an attribution, as a grouping key; None if it is the same for all."""
        return (attribution.explainer, attribution.signed) if judge.explains_again and explainer is None else None

    @cache
    def again(made: tuple[str, bool] | None) -> tuple[Metric, Explainer | None]:
        """The metric and the explainer that it uses for re-explaining."""
        if not judge.explains_again:
            return judge, None
        method = _explainer_of(*made) if made is not None else catalog.build("explainers", explainer)
        if method is None:
            return judge, None
        return judge.for_explainer(method), method.prepare(prober, [each.question.encoding for each in attributions])

    def routines() -> Iterator[Routine[list[Score]]]:
        for made, several in groupby(attributions, made_with):
            settled, method = again(made)
            explain = method.ask if method is not None else _refusing(name) if judge.explains_again else never
            for some in _batches(prober, judge, method, several):
                yield settled.score([_seeded(each.question, seed) for each in some], some, explain)

    yield from chain.from_iterable(prober.run(routines(), judge.batch_size or prober.texts_at_once))


def _batches(
    prober: Prober, metric: Metric, method: Explainer | None, attributions: Iterator[Attribution]
) -> Iterator[list[Attribution]]:
    """Batches of as many attributions as the metric accepts and the re-explaining method can process."""
    if method is not None and metric.batch_size is None:
        return batches_by_cost(attributions, lambda each: each.question.n_units, method, prober)
    return iter(lambda: list(islice(attributions, metric.batch_size or prober.texts_at_once)), [])


def _seeded(question: Question, seed: int) -> Question:
    return question if question.seed == seed else replace(question, seed=seed)


def _explainer_of(spec: str, signed: bool) -> Explainer | None:
    """The method of an attribution, absolute if its scores are; None for imported scores."""
    if not spec:
        return None
    user_code.refuse(spec)
    method = EXPLAINERS.method(spec).instance
    return replace(method, absolute=True) if isinstance(method, SignedExplainer) and not signed else method


def _refusing(metric: str) -> Explain:
    def refuse(questions: Sequence[Question]) -> Routine[list[Attribution]]:
        raise TrothError(
            f"{metric} explains the text again at every step, but these scores were imported; "
            "pass explainer=…, or use a metric that only reads the scores"
        )

    return refuse


def require_model_of(attribution: Attribution, model: TextClassifier) -> None:
    """Raises an error if an attribution explains another model."""
    if attribution.model and attribution.model != model.fingerprint:
        raise TrothError(
            f"example {attribution.example.id} was explained on a different model ({attribution.model}, not "
            f"{model.fingerprint}); measure an attribution on the model that it explains"
        )


def _check(model: TextClassifier, attribution: Attribution, metric: Metric, name: str) -> None:
    example = attribution.example
    require_model_of(attribution, model)
    if metric.needs_label:
        _ = gold_labels(model.labels, example) if model.outputs == "labels" else gold_class(model.labels, example)
    if metric.needs_rationale and example.rationale is None:
        raise TrothError(f"{name} compares with human rationales, but example {example.id} has none")
