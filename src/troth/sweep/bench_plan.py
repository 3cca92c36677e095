"""The plan of a bench, with what was not named filled in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from troth.core import catalog
from troth.core.types import Example
from troth.core.units import UnitName, spans_of, word_spans
from troth.data import Data, load_data
from troth.explainers import Explainer
from troth.metrics import Metric
from troth.store.cells import Plan
from troth.store.specs import ExplanationSpec
from troth.sweep import defaults
from troth.sweep.context import Context
from troth.sweep.crossing import add_checks, cross, model_spec
from troth.sweep.naming import named_by_user
from troth.training.record import usual_masking
from troth.validity.masf import FEWEST
from troth.validity.references import held_out_beside
from troth.verbs.methods import Given, methods

_REFERENCES = 1000  # of a check, at most
# When all methods are run, expensive ones are given fewer examples, and what explains again with them none.
_EXPENSIVE, _FEWER, _TOO_EXPENSIVE = 500, 30, 1_000  # passes per example, examples, passes of explaining again


def plan_of(
    context: Context,
    model: Any,
    data: str | Path | Data | Iterable[Example],
    explainers: Sequence[Given] | Mapping[str, Given] | Literal["all"] | None,
    metrics: Sequence[str | Metric] | Literal["all"] | None,
    *,
    split: str | None = None,
    limit: int | None = None,
    columns: Mapping[str, Any] | None = None,
    seeds: Sequence[int] = (0,),
    masking: str | None = None,
    **options: Any,
) -> Plan:
    """The plan of a bench, with defaults filled in. A limit draws examples with seed 0, classes by their shares."""
    whole = data if isinstance(data, Data) else load_data(data, split=split, **(columns or {}))
    examples = whole if limit is None else whole.sample(limit)
    context.trust(model[0] if isinstance(model, tuple) else model)
    about = model_spec(context, model)
    classifier = context.model(about)
    masking = usual_masking(classifier) if masking is None else masking
    explainers = explainers or defaults.usual_explainers(classifier)
    left_out = _incomplete("explainers") if explainers == "all" else {}
    every = [name for name in catalog.names("explainers") if name not in left_out]
    chosen = named_by_user(context, model, every if explainers == "all" else explainers)
    if not any(method.name == "random" for method in chosen):
        chosen = [*methods(["random"]), *chosen]
    marked = all(example.rationale is not None for example in examples)
    usual = defaults.usual_metrics(classifier, masking, marked)
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
