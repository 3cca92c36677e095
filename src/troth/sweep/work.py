"""The works of a bench: explains the examples of a data cell, measures a stored explanation, checks masked inputs."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from troth.core.errors import TrothError
from troth.core.types import Encoding
from troth.data import Data
from troth.engine.prober import Prober
from troth.store.cells import Cell, Made
from troth.store.schemas import CHECKS
from troth.store.tables import (
    attributions_to_table,
    check_to_table,
    scores_to_table,
    table_to_attributions,
    table_to_examples,
)
from troth.sweep.context import Context, model_key
from troth.validity.checking import check
from troth.verbs.explain import explain_each
from troth.verbs.measure import measure_each

WORKS = {
    "explanation": "troth.sweep.work:explain",
    "metric": "troth.sweep.work:measure",
    "check": "troth.sweep.work:check_masked",
}


def explain(cell: Cell, parents: Sequence[pa.Table], context: Context) -> Made:
    """One attribution an example; the parent is the data."""
    (data,) = parents
    specs = cell.specs
    prober = Prober(context.model(specs), specs["masking"])
    attributions = explain_each(
        prober,
        table_to_examples(data.slice(0, specs.get("first"))),
        specs["explainer_full"],
        units=specs["units"],
        target=specs["target"],
        seed=specs["seed"],
        against=specs["against"],
        segments=specs["segments"],
    )
    table = attributions_to_table(attributions)  # only now is the model asked
    return Made(table, prober.cost.forward + prober.cost.beside, prober.cost.backward)


def measure(cell: Cell, parents: Sequence[pa.Table], context: Context) -> Made:
    """One score an attribution; the parents are the explanation and the data."""
    explanation, data = parents
    specs = cell.specs
    explanation = explanation.slice(0, specs.get("first"))
    prober = Prober(context.model(specs), specs["masking"])
    encodings = context.once(
        (model_key(specs), cell.parents[1], specs["units"], specs["segments"], data.num_rows),
        lambda: _encode(prober, data, cell),
    )
    attributions = table_to_attributions(
        prober.model,
        [],
        explanation,
        explainer=specs["explainer_full"],
        seed=specs["seed"],
        encodings=encodings,
    )
    scores = list(measure_each(prober, attributions, specs["metric_full"], seed=specs["seed"]))
    table = scores_to_table(explanation.column("example_id").to_pylist(), scores)
    return Made(table, prober.cost.forward, prober.cost.backward)


def check_masked(cell: Cell, parents: Sequence[pa.Table], context: Context) -> Made:
    """p-values of examples masked at random; the parents are the data and, where there are any to spare, references."""
    data, *others = (Data(cell.specs["data"], table_to_examples(parent), ()) for parent in parents)
    try:
        found = check(
            context.model(cell.specs), data, others[0] if others else None, masking=cell.specs["masking"],
            step=cell.specs["step"], seed=cell.specs["seed"], units=cell.specs["units"],
            references=cell.specs["references"],
        )  # fmt: skip
    except TrothError as error:  # what cannot be tested is an answer, too
        return Made(pa.Table.from_pylist([{"why": str(error)}], schema=CHECKS))
    return Made(check_to_table(found, "random"))


def _encode(prober: Prober, data: pa.Table, cell: Cell) -> list[Encoding]:
    return prober.model.encode(table_to_examples(data), cell.specs["units"], cell.specs["segments"])
