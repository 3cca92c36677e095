"""The plan of a bench, with what was not named filled in: explainers and metrics that suit the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, Literal

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.core.units import UnitName, spans_of, word_spans
from troth.data import Data, Source, load_data
from troth.explainers import Explainer
from troth.metrics import Erasing, Metric
from troth.models import TextClassifier
from troth.store.cells import Plan
from troth.store.specs import ExplanationSpec
from troth.sweep.context import Context
from troth.sweep.crossing import add_checks, cross
from troth.training.record import usual_masking
from troth.validity.masf import FEWEST
from troth.validity.references import held_out_beside
from troth.verbs.methods import Given, Method, method, methods

# No method of hundreds of passes: some metrics explain again at every step.
EXPLAINERS = (
    "random", "gradient", "input_x_gradient", "integrated_gradients", "deep_lift", "attention", "leave_one_out",
)  # fmt: skip
ERASING_EXPLAINERS = ("random", "leave_one_out", "lime", "kernel_shap")  # for a model that shows no inside
METRICS = (
    "aopc_comprehensiveness",
    "aopc_sufficiency",
    "recursive_erasure(step=0.2)",
    "soft_comprehensiveness",
    "soft_sufficiency",
)
RATIONALE_METRICS = ("rationale_agreement",)  # where humans marked what matters
_REFERENCES = 1000  # of a check, at most
# When all methods are run, expensive ones are given fewer examples, and what explains again with them none.
_EXPENSIVE, _FEWER, _TOO_EXPENSIVE = 500, 30, 1_000  # passes per example, examples, passes of explaining again


def plan_of(
    context: Context,
    model: Any,
    data: Source,
    explainers: Sequence[Given] | Mapping[str, Given] | Literal["all"] | None,
    metrics: Sequence[str | Metric] | Literal["all"] | None,
    *,
    split: str | None = None,
    limit: int | None = None,
    columns: Mapping[str, Any] | None = None,
    group: str | None = None,
    seeds: Sequence[int] = (0,),
    masking: str | None = None,
    **options: Any,
) -> Plan:
    """The plan of a bench, with defaults filled in. A limit draws examples with seed 0, classes by their shares."""
    if group is not None:
        columns = {**(columns or {}), "group": group}
        if isinstance(data, Data):
            raise TrothError(f"the data are loaded already; name the group there: load_data(…, group={group!r})")
    whole = data if isinstance(data, Data) else load_data(data, split=split, **(columns or {}))
    examples = whole if limit is None else whole.sample(limit)
    # Code that the user names is trusted from here on, in this process and in its workers; no other code is run.
    context.trust(model[0] if isinstance(model, tuple) else model)
    about = context.model_spec(model)
    classifier = context.model(about)
    masking = usual_masking(classifier) if masking is None else masking
    explainers = explainers or (ERASING_EXPLAINERS if classifier.erases_only else EXPLAINERS)
    left_out = _incomplete("explainers") if explainers == "all" else {}
    every = [name for name in catalog.names("explainers") if name not in left_out]
    named = every if explainers == "all" else explainers
    for given in named.values() if isinstance(named, Mapping) else named:
        context.trust(given)
    chosen = with_random(methods(named, context.home))
    marked = all(example.rationale is not None for example in examples)
    usual = _usual_metrics(classifier, masking, marked)
    judges = _all_metrics(usual) if metrics == "all" else list(metrics or usual)
    allowance = _Allowance(examples, options.get("units", "word"), left_out) if explainers == "all" else None
    plan = cross(
        context, [about], [examples], chosen, judges, seeds, share=allowance, masking=masking, **options
    )  # fmt: skip
    if allowance is not None:
        plan.about["left_out"] = allowance.left_out
    drawn_from = whole if isinstance(data, str) and limit is not None else ()
    add_checks(plan, lambda: _references(context, plan, examples, drawn_from), masking)
    return plan


def with_random(methods: Sequence[Method]) -> list[Method]:
    """The methods with the random one, to compare with."""
    there = any(method.name == "random" for method in methods)
    return [*methods] if there else [method("random"), *methods]


def _usual_metrics(model: TextClassifier, masking: str, marked: bool) -> list[str]:
    """Metrics that the model can answer; those that erase whole units do it by `masking`, so that it can be checked."""
    metrics: list[Metric] = [catalog.build("metrics", spec) for spec in METRICS]
    if model.erases_only:
        # Its explainers take hundreds of passes each.
        metrics = [metric for metric in metrics if _reads_ids(metric) and not metric.explains_again]
    erased = [replace(metric, masking=masking) if _reads_ids(metric) else metric for metric in metrics]  # type: ignore[call-arg]  # an option of all that erase
    return [*map(catalog.spec, erased), *(RATIONALE_METRICS if marked else ())]


def _reads_ids(metric: Metric) -> bool:
    return isinstance(metric, Erasing) and metric.perturbation.level == "ids"


def _references(context: Context, plan: Plan, examples: Data, whole: Sequence[Example]) -> Sequence[Example]:
    """What a check compares with: the part held out of the model's training, else examples that the limit left out.

    Only those as long as the ones that are measured: the test would find the length otherwise, not the masking.
    """
    held_out, _ = held_out_beside(context.model(ExplanationSpec.of(next(plan.of("explanation")))), examples)
    if held_out is not None:
        return held_out
    taken = {example.id for example in examples}
    lengths = [len(word_spans(example.text)) for example in examples] or [0]
    shortest, longest = min(lengths), max(lengths)
    alike = (
        example for example in whole if example.id not in taken and shortest <= len(word_spans(example.text)) <= longest
    )
    others = list(islice(alike, _REFERENCES))
    return others if len(others) >= FEWEST else []


def _incomplete(kind: str) -> dict[str, str]:
    """What cannot be run by its name alone, and what it needs."""
    options = {name: catalog.required(kind, name) for name in catalog.names(kind)}
    return {name: f"needs {name}({required[0]}=…)" for name, required in options.items() if required}


def _all_metrics(usual: Sequence[str]) -> list[str]:
    """Every metric that can be run by its name; those of an ordinary bench as they are there."""
    specs = {spec.partition("(")[0]: spec for spec in usual}
    return [specs.get(name, name) for name in catalog.names("metrics") if not catalog.required("metrics", name)]


@dataclass
class _Allowance:
    """How many examples each method is given when all are run; `left_out` collects what would take too long."""

    examples: Data
    units: UnitName
    left_out: dict[str, str]

    def __call__(self, explainer: Explainer, metric: Metric | None) -> int | None:
        passes = sum(map(explainer.passes, self._lengths)) / max(1, len(self._lengths))
        if metric is not None:
            again = passes * metric.for_explainer(explainer).explanations()
            if again > _TOO_EXPENSIVE:
                title = f"{catalog.spec(explainer)} × {catalog.spec(metric)}"
                self.left_out[title] = (
                    f"explaining again would take about {again:,.0f} passes per example; name them to run it"
                )
                return 0
            passes = max(passes, again)
        return _FEWER if passes > _EXPENSIVE and len(self.examples) > _FEWER else None

    @cached_property
    def _lengths(self) -> list[int]:
        spans = spans_of(self.units)
        return [len(spans(example.text)) for example in self.examples]
