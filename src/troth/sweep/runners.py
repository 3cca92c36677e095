"""The runners of a bench: explain the examples of a data cell, measure a stored explanation, check masked inputs."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Attribution
from troth.data import Data
from troth.engine.prober import Prober
from troth.maskings import Masking
from troth.metrics import Erasing
from troth.models import TextClassifier
from troth.store.cells import Cell, CellOutput
from troth.store.specs import CHECKS, CheckSpec, ExplanationSpec, MetricSpec
from troth.store.tables import (
    attributions_to_table,
    check_to_table,
    scores_to_table,
    table_to_attributions,
    table_to_examples,
)
from troth.sweep.context import Context
from troth.validity.checking import check
from troth.verbs.explain import explain_each
from troth.verbs.measure import measure_each
from troth.verbs.own_explainers import OwnExplainer


def explain(cell: Cell, parents: Sequence[pa.Table], context: Context) -> CellOutput:
    """Computes one attribution per example; the first parent is the data."""
    spec = ExplanationSpec.of(cell)
    prober = Prober(context.model(spec), spec.masking)
    _require_unchanged(spec.masking, prober.model, spec.masking_files)
    attributions = explain_each(
        prober, table_to_examples(parents[0].slice(0, spec.first)), context.explainer(spec), units=spec.units,
        target=spec.target, seed=spec.seed, against=spec.against, segments=spec.segments,
    )  # fmt: skip
    if spec.magnitude:
        attributions = (attribution.magnitude() for attribution in attributions)
    if spec.over_sum:
        attributions = map(over_sum, attributions)
    # The model is only called here, because attributions are computed lazily.
    table = attributions_to_table(attributions)
    return CellOutput(table, prober.cost.forward + prober.cost.side_model_rows, prober.cost.backward)


def over_sum(attribution: Attribution) -> Attribution:
    """The scores divided by their signed sum, or unchanged if it is 0."""
    total = float(attribution.scores.sum())
    return attribution if total == 0 else replace(attribution, scores=attribution.scores / total)


def measure(cell: Cell, parents: Sequence[pa.Table], context: Context) -> CellOutput:
    """Computes one score per attribution; the parents are the explanation and the data."""
    explanation, data = parents
    spec = MetricSpec.of(cell)
    explanation = explanation.slice(0, spec.first)
    prober = Prober(context.model(spec), spec.masking)
    _require_unchanged(spec.masking, prober.model, spec.masking_files)
    metric = context.metric(spec)
    if isinstance(metric, Erasing):
        _require_unchanged(metric.perturbation, prober.model, spec.metric_files)
    encodings = context.once(
        (spec.key, cell.parents[1], spec.units, spec.segments, data.num_rows),
        lambda: prober.model.encode(table_to_examples(data), spec.units, spec.segments),
    )
    # Metrics that re-explain use the same method; a user-defined one cannot be built from its spec.
    method = None if spec.explainer_code is None else context.explainer(spec)
    fixed = isinstance(method, OwnExplainer) and not method.follows_target
    attributions = table_to_attributions(
        prober.model, encodings, explanation, explainer="" if fixed else spec.explainer_full, seed=spec.seed
    )
    scores = measure_each(prober, attributions, metric, explainer=method, seed=spec.seed)
    table = scores_to_table(explanation.column("example_id").to_pylist(), scores)
    return CellOutput(table, prober.cost.forward + prober.cost.side_model_rows, prober.cost.backward)


def _require_unchanged(masking: str | Masking, model: TextClassifier, planned: str | None) -> None:
    """Raises an error if the side model of a masking has changed since planning."""
    if planned is not None and catalog.build("maskings", masking).files(model) != planned:
        name = masking if isinstance(masking, str) else catalog.spec(masking)
        raise TrothError(f"the model that {name} asks has changed since this was planned; plan again")


def check_masked(cell: Cell, parents: Sequence[pa.Table], context: Context) -> CellOutput:
    """Computes p-values of examples masked at random; the parents are the data and, if there are any, references."""
    spec = CheckSpec.of(cell)
    _require_unchanged(spec.masking, context.model(spec), spec.masking_files)
    data, *others = (Data(spec.data, table_to_examples(parent), ()) for parent in parents)
    try:
        checked = check(
            context.model(spec), data, others[0] if others else None, masking=spec.masking, step=spec.step,
            seed=spec.seed, units=spec.units, references=spec.references,
        )  # fmt: skip
    except TrothError as error:  # an error that explains why the test does not apply is stored as a result
        return CellOutput(pa.Table.from_pylist([{"why": str(error)}], schema=CHECKS))
    return CellOutput(check_to_table(checked, "random"))
