"""The plan of a bench: models × data × explainers × metrics × seeds."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from troth.core import catalog, user_code
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.core.units import UnitName, word_spans
from troth.data import Data
from troth.data._classes import match_labels
from troth.explainers import Explainer
from troth.maskings import Masking
from troth.metrics import Erasing, Metric, require_outputs
from troth.models import Segments, TextClassifier, check_choices
from troth.models.targets import require_class
from troth.store.cells import Cell, Plan, canonical
from troth.store.noted import metric_of
from troth.store.specs import CheckSpec, DataSpec, ExplanationSpec, MetricSpec, ModelSpec, ReferencesSpec, SourceSpec
from troth.store.tables import examples_to_table
from troth.sweep.context import Context
from troth.validity.masf import FEWEST
from troth.validity.references import held_out_beside
from troth.validity.stamp import can_be_tested
from troth.verbs.methods import EXPLAINERS, METRICS, GivenMetric, Method, facts, settled
from troth.verbs.own_explainers import OwnAttributions

# How many examples a method, or one of its metrics, gets: None for all, 0 for none.
Share = Callable[[Explainer, Metric | None], int | None]
_REFERENCES = 1000  # maximum number of references of a check
_TRIED = 8  # examples that a model encodes before anything is planned


def cross(
    context: Context,
    models: Iterable[Any],
    data: Iterable[Data],
    explainers: Sequence[str | Explainer | Method[Explainer]],
    metrics: Sequence[GivenMetric],
    seeds: Sequence[int] = (0,),
    *,
    units: UnitName = "word",
    target: str | int = "predicted",
    against: str | int | None = None,
    segments: Segments = "first",
    masking: str | Masking = "mask_token",
    share: Share | None = None,
) -> Plan:
    """Plans an explanation cell for each model, data set, explainer and seed, and a cell for each of its metrics.

    A model is a name, a model in memory, a pair of a name and options of `load_model`, or a ModelSpec. The examples are
    cells, too, so a run folder is self-contained and workers need no access to the data. If `share` gives a method
    fewer examples, it gets the first ones, and "first" in the cell's specs is their number. Explainers given as text
    are those of the catalog: code that a user names is already a `Method`.
    """
    check_choices(units, segments)
    plan = Plan(about={"models": {}, "data": {}, "metrics": {}, "seeds": list(seeds)})
    sets = list(data)
    table = _explainers(context, plan, explainers)
    table_metrics = METRICS.methods(metrics, context.home)
    erased_by = catalog.spec(catalog.build("maskings", masking), full=True)
    for model in models:
        about = _model_spec(context, plan, model)
        classes = context.model(about).labels
        require_class(context.model(about), target, against)
        require_outputs([metric.instance for metric in table_metrics], context.model(about))
        for examples in sets:
            # The next model may number the same classes differently.
            matched = match_labels(examples, classes, about.model, context.model(about).outputs)
            # A model that cannot read the data is rejected before anything is written.
            context.model(about).encode(matched[:_TRIED], units, segments)
            source = _data_cell(plan, matched)
            # Options that a metric leaves open are chosen once for the table and become part of its spec.
            asked = [settled(metric, [method.instance for method in table], matched) for metric in table_metrics]
            side_files = [
                _files(each.instance.perturbation, context.model(about)) if isinstance(each.instance, Erasing) else None
                for each in asked
            ]
            for each in asked:
                if each.in_memory:  # other processes cannot load it
                    context.metrics[each.full, each.code] = each.instance
            plan.about["metrics"] |= {each.name: known for each in asked if (known := facts(each)) is not None}
            of_data = vars(SourceSpec.of(source))
            erased_files = _files(catalog.build("maskings", masking), context.model(about))
            for method in table:
                if isinstance(method.instance, OwnAttributions):
                    method.instance.require(matched)
                for seed in seeds:
                    explained = ExplanationSpec(
                        **vars(about), **of_data, units=units, target=target, against=against, segments=segments,
                        masking=erased_by, explainer=method.name, explainer_full=method.full,
                        explainer_code=method.code, explainer_files=method.files, seed=seed, masking_files=erased_files,
                        first=None if share is None else share(method.instance, None),
                    )  # fmt: skip
                    explanation = plan.add(explained.cell(source))
                    for metric, files in zip(asked, side_files, strict=True):
                        few = None if share is None else share(method.instance, metric.instance)
                        if few != 0:
                            whole = vars(explained) if few is None else {**vars(explained), "first": few}
                            measured = MetricSpec(
                                **whole,
                                metric=metric.name,
                                metric_full=metric.full,
                                metric_code=metric.code,
                                metric_files=files,
                            )
                            plan.add(measured.cell(explanation, source))
    return plan


def _explainers(
    context: Context, plan: Plan, explainers: Sequence[str | Explainer | Method[Explainer]]
) -> list[Method[Explainer]]:
    """The explainers of the table; run.json records what their names stand for."""
    for each in explainers:
        user_code.refuse(each)
    found = EXPLAINERS.methods(explainers)
    for method in found:
        if method.in_memory:
            context.methods[method.full, method.code, method.files] = method.instance
    plan.about["methods"] = {each.name: {"spec": each.full, "code": each.code, "files": each.files} for each in found}
    return found


def _files(masking: Masking, model: TextClassifier) -> str | None:
    """The hash of the side model that a masking uses; None without one, or if it fails (its cells report the error)."""
    try:
        return masking.files(model)
    except TrothError:
        return None


def add_checks(plan: Plan, context: Context, sets: Iterable[tuple[Data, Sequence[Example]]]) -> None:
    """Adds cells that test, for each model, data set and masking used by a metric, whether inputs stay in distribution.

    `sets` are the data sets of the plan, each with the examples that it was drawn from. References are only needed for
    maskings that the test applies to; without any, half of the examples serve as references.
    """
    used: dict[str, Masking] = {}
    files: dict[tuple[object, str], object] = {}
    for cell in plan.of("metric"):
        judge = metric_of(MetricSpec.of(cell).metric, plan.about)
        if isinstance(judge, Erasing):
            name = catalog.name_of(judge.perturbation)
            used[name] = judge.perturbation
            files[cell.specs["model"], name] = cell.specs.get("metric_files")
    tested = [name for name, masking in used.items() if can_be_tested(masking)]
    if not tested:
        return
    drawn: dict[tuple[str, str | None], tuple[Data, Sequence[Example]]] = {
        (examples.name, examples.split): (examples, whole) for examples, whole in sets
    }
    references: dict[object, list[Cell]] = {}
    how = {"step": 0.1, "seed": min(plan.about["seeds"]), "references": "as_trained"}
    for cell in list(plan.of("explanation")):
        spec = ExplanationSpec.of(cell)
        place = spec.key, cell.parents
        if place not in references:
            found = _references(context.model(spec), *drawn[spec.data, spec.split])
            references[place] = [_references_cell(plan, found)] if found else []
        for name in tested:
            about = {"masking": catalog.spec(used[name]), "masking_files": files.get((spec.model, name))}
            plan.add(CheckSpec.from_dict({**cell.specs, **how, **about}).cell(*cell.parents, *references[place]))


def _references(model: TextClassifier, examples: Data, whole: Sequence[Example]) -> Sequence[Example]:
    """The references of a check: the part held out of the model's training, or else examples beyond the limit.

    Only texts of a similar length as the measured ones: otherwise the test would detect the length instead of the
    masking.
    """
    held_out, _ = held_out_beside(model, examples)
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


def _references_cell(plan: Plan, references: Sequence[Example]) -> Cell:
    table = examples_to_table(references)
    digest = hashlib.blake2b(canonical(table.to_pylist()).encode(), digest_size=16).hexdigest()
    return plan.add(ReferencesSpec(references_fingerprint=digest).cell(), table)


def _data_cell(plan: Plan, data: Data) -> Cell:
    spec = DataSpec(
        data=data.name, split=data.split, examples=len(data), data_fingerprint=data.fingerprint, labels=data.labels
    )
    about = {"split": data.split, "examples": len(data), "fingerprint": data.fingerprint, "notes": list(data.notes)}
    plan.about["data"][data.name] = about
    return plan.add(spec.cell(), examples_to_table(data))


def _model_spec(context: Context, plan: Plan, model: Any) -> ModelSpec:
    spec = context.model_spec(model)
    loaded = context.model(spec)
    about: dict[str, Any] = {"fingerprint": spec.model_fingerprint, "labels": list(loaded.labels)}
    if not loaded.erases_only:
        about["dtype"] = str(loaded.dtype).removeprefix("torch.")
    if loaded.outputs == "labels":
        about["notes"] = ["multi-label: of each example one label is explained and measured, by its own probability"]
    if spec.model_options:
        about["options"] = spec.model_options
        about |= {"notes": [*about.get("notes", ()), *loaded.notes]} if loaded.notes else {}
    plan.about["models"][spec.model] = about
    return spec
