"""The plan of a bench: models × data × explainers × metrics × seeds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from troth.core import catalog
from troth.core.types import Example
from troth.core.units import UnitKind
from troth.data import Data
from troth.data._classes import match_labels
from troth.engine.targets import require_class
from troth.explainers import Explainer
from troth.maskings import Masking
from troth.metrics import Metric
from troth.models import Segments, check_choices
from troth.store.cells import Cell, Plan, canonical
from troth.store.tables import examples_to_table
from troth.sweep.context import Context, model_key
from troth.sweep.work import WORKS
from troth.validity.stamp import TESTED, masking_of

# How many of the examples a method, or a metric of it, is given: None for all, 0 for none.
Share = Callable[[Explainer, Metric | None], int | None]
Model = Any  # a name, a model in memory, (name, options of load_model), or what Context.model_specs gave
_TRIED = 8  # examples that a model reads before anything is planned


def cross(
    context: Context,
    models: Iterable[Model],
    data: Iterable[Data],
    explainers: Sequence[str | Explainer],
    metrics: Sequence[str | Metric],
    seeds: Sequence[int] = (0,),
    *,
    units: UnitKind = "word",
    target: str | int = "predicted",
    against: str | int | None = None,
    segments: Segments = "first",
    masking: str | Masking = "mask_token",
    share: Share | None = None,
) -> Plan:
    """One explanation cell for each model, data, explainer and seed, and from each a cell for every metric.

    The examples are cells, too: a run folder holds all it is about, and workers need no access to the data. Where
    `share` gives a method fewer examples, they are the first ones, and the cell's "first" says how many.
    """
    check_choices(units, segments)
    plan = Plan(WORKS, about={"models": {}, "data": {}, "seeds": list(seeds)})
    sets = list(data)
    methods = [catalog.build("explainers", explainer) for explainer in explainers]
    judges = [catalog.build("metrics", metric) for metric in metrics]
    common = {
        "units": units,
        "target": target,
        "against": against,
        "segments": segments,
        "masking": catalog.spec(catalog.build("maskings", masking), full=True),
    }
    for model in models:
        about = _model_specs(context, plan, model)
        classes = context.labels[model_key(about)]
        require_class(classes, target, against)
        for one in sets:
            # The same data may number its classes otherwise for the next model.
            matched = match_labels(one, classes, about["model"])
            # A model that cannot read the data is refused before anything is written.
            context.model(about).encode(matched[:_TRIED], units, segments)
            data_cell = _data_cell(plan, matched)
            # What a metric leaves open is chosen once for the table, and is then part of its spec.
            settled = [judge.settled(methods, matched) for judge in judges]
            of_data = {key: value for key, value in data_cell.specs.items() if key != "labels"}
            for method in methods:
                for seed in seeds:
                    specs = {**about, **of_data, **common, **_spec("explainer", method), "seed": seed}
                    specs |= _first(share, method, None)
                    explanation = plan.add(Cell("explanation", specs, (data_cell.name,)))
                    for judge in settled:
                        first = _first(share, method, judge)
                        if first.get("first") != 0:
                            of_metric = {**specs, **first, **_spec("metric", judge)}
                            plan.add(Cell("metric", of_metric, (explanation.name, data_cell.name)))
    return plan


def _first(share: Share | None, explainer: Explainer, metric: Metric | None) -> dict[str, int]:
    number = None if share is None else share(explainer, metric)
    return {} if number is None else {"first": number}


def add_checks(plan: Plan, find_references: Callable[[], Sequence[Example]] = tuple) -> None:
    """A cell for each model and data set that tells whether inputs masked at random are in distribution.

    Planned where a metric masks, and only then are references looked for; without any, half of the examples are kept
    back as such.
    """
    masking = [masking_of(catalog.build("metrics", cell.specs["metric_full"])) for cell in plan.of("metric")]
    if TESTED not in masking:
        return
    beside: tuple[str, ...] = ()
    references = find_references()
    if references:
        table = examples_to_table(references)
        digest = hashlib.blake2b(canonical(table.to_pylist()).encode(), digest_size=16).hexdigest()
        beside = (plan.add(Cell("references", {"references_fingerprint": digest}), table).name,)
    wanted = ("model", "model_options", "model_fingerprint", "data", "split", "examples", "data_fingerprint", "units")
    for cell in list(plan.of("explanation")):
        specs = {key: cell.specs[key] for key in wanted if key in cell.specs}
        specs |= {"masking": TESTED, "step": 0.1, "seed": min(plan.about["seeds"]), "references": "as_trained"}
        plan.add(Cell("check", specs, (*cell.parents, *beside)))


def _data_cell(plan: Plan, data: Data) -> Cell:
    specs = {"data": data.name, "split": data.split, "examples": len(data), "data_fingerprint": data.fingerprint}
    about = {"split": data.split, "examples": len(data), "fingerprint": data.fingerprint, "notes": list(data.notes)}
    plan.about["data"][data.name] = about
    return plan.add(Cell("data", {**specs, "labels": list(data.labels)}), examples_to_table(data))


def _model_specs(context: Context, plan: Plan, model: Model) -> dict[str, Any]:
    source, options = model if isinstance(model, tuple) else (model, None)
    specs: dict[str, Any] = source if isinstance(source, dict) else context.model_specs(source, options)
    about = {"fingerprint": specs["model_fingerprint"], "labels": list(context.labels[model_key(specs)])}
    known = specs.get("model_options")
    notes = context.model(specs).notes if known else ()
    about |= {"options": known} if known else {}
    plan.about["models"][specs["model"]] = about | ({"notes": list(notes)} if notes else {})
    return specs


def _spec(kind: str, built: Any) -> dict[str, str]:
    """A method twice: as people write it, and with every option, which is what a result depends on."""
    return {kind: catalog.spec(built), f"{kind}_full": catalog.spec(built, full=True)}
