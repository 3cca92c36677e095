"""What the study of planted shortcuts does with a trained model: asks whether it uses the shortcut, explains it, scores
every explanation with a metric, and tests whether erased texts are in distribution.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Attribution, Encoding, Question, Score
from troth.data import Data
from troth.engine.prober import Prober
from troth.explainers import Explainer
from troth.metrics import Metric
from troth.models import TextClassifier
from troth.store.cells import Cell, CellOutput
from troth.store.specs import CHECKS, CheckSpec, ModelSpec
from troth.store.tables import check_to_table, table_to_examples
from troth.studies.truth._explanations import deciding, explanations, placement
from troth.sweep.context import Context
from troth.training.quality import predict
from troth.validity.checking import check
from troth.verbs.explain import explain_pairs
from troth.verbs.measure import measure_each

MASKING = "mask_token"  # of explainers that erase
USES = pa.schema({"change": pa.string(), "example_id": pa.string(), "expected": pa.int32(), "predicted": pa.int32()})
EXPLAINED = pa.schema(
    {
        "explanation": pa.string(), "example_id": pa.string(), "scores": pa.list_(pa.float32()), "target": pa.int32(),
        "average_precision": pa.float32(), "precision": pa.float32(), "rank": pa.float32(), "mass": pa.float32(),
        "why": pa.string(),
    }
)  # fmt: skip
MEASURED = pa.schema({"explanation": pa.string(), "example_id": pa.string(), "value": pa.float64(), "why": pa.string()})


@dataclass(frozen=True, kw_only=True)
class UseSpec(ModelSpec):
    """What a model says of texts whose planted words are changed."""

    kind = "use"
    runner = "troth.studies.truth._works:ask_changed"
    columns = USES

    seed: int


@dataclass(frozen=True, kw_only=True)
class PlantedSpec(ModelSpec):
    """All explanations of one model: of explainers, and of known quality."""

    kind = "planted"
    runner = "troth.studies.truth._works:explain"
    columns = EXPLAINED

    explainers: Sequence[str]
    seed: int


@dataclass(frozen=True, kw_only=True)
class GradedSpec(ModelSpec):
    """A metric of all explanations of one model."""

    kind = "graded"
    runner = "troth.studies.truth._works:measure"
    columns = MEASURED

    explainers: Sequence[str]
    metric: str
    metric_full: str
    seed: int


@dataclass(frozen=True, kw_only=True)
class StampSpec(CheckSpec):
    """Whether texts that are masked at random are in distribution for one model."""

    kind = "stamp"
    runner = "troth.studies.truth._works:check_masked"


def ask_changed(cell: Cell, parents: Sequence[pa.Table], context: Context) -> CellOutput:
    """The parents: the changed texts, whose ids end with the name of the change, and the training."""
    examples = table_to_examples(parents[0])
    predicted = predict(context.model(UseSpec.of(cell)), examples).argmax(-1).tolist()
    rows = []
    for example, label in zip(examples, predicted, strict=True):
        name, _, change = example.id.rpartition(" ")
        rows.append({"change": change, "example_id": name, "expected": example.label, "predicted": label})
    return CellOutput(pa.Table.from_pylist(rows, schema=USES), len(rows))


def explain(cell: Cell, parents: Sequence[pa.Table], context: Context) -> CellOutput:
    """The parents: the texts and the training. What an explainer cannot explain is noted in `why`."""
    spec = PlantedSpec.of(cell)
    model, encodings = _read(spec, cell, parents[0], context)
    rows: list[dict[str, Any]] = []
    prober = Prober(model, MASKING)
    for name, explainer in explanations(spec.explainers).items():
        prober.forget_erased()
        try:
            method = explainer.prepare(prober, encodings)
            found = list(explain_pairs(prober, method, [(each, "predicted") for each in encodings], seed=spec.seed))
        except TrothError as error:
            rows.append({"explanation": name, "why": str(error)})
            continue
        for each in found:
            placed = placement(each.scores.astype(np.float64), deciding(each.question.encoding))
            own = {"example_id": each.example.id, "scores": each.scores, "target": each.target}
            rows.append({"explanation": name, **own, **asdict(placed)})
    return CellOutput(pa.Table.from_pylist(rows, schema=EXPLAINED), prober.cost.forward, prober.cost.backward)


def measure(cell: Cell, parents: Sequence[pa.Table], context: Context) -> CellOutput:
    """The parents: the texts, all explanations, and the training."""
    spec = GradedSpec.of(cell)
    model, encodings = _read(spec, cell, parents[0], context)
    by_id = {encoding.example.id: encoding for encoding in encodings}
    metric: Metric = catalog.build("metrics", spec.metric_full)
    methods = explanations(spec.explainers)
    explained = {
        (row["explanation"], row["example_id"]): _attribution(row, by_id, methods, model, spec.seed)
        for row in parents[1].to_pylist() if row["scores"] is not None
    }  # fmt: skip
    prober = Prober(model, MASKING)
    scores: dict[tuple[str, str], Score] = {}
    if metric.explains_again:
        for name in dict.fromkeys(name for name, _ in explained):
            keys = [key for key in explained if key[0] == name]
            scores |= zip(keys, _measured(prober, explained, keys, metric, spec.seed, methods[name]), strict=True)
    else:
        # All explanations of one text together: they ask about many inputs in common.
        places = {name: place for place, name in enumerate(by_id)}
        keys = sorted(explained, key=lambda key: places[key[1]])
        scores |= zip(keys, _measured(prober, explained, keys, metric, spec.seed), strict=True)
    rows = [
        {
            "explanation": name,
            "example_id": text,
            "value": None if math.isnan(found.value) else found.value,
            "why": found.why,
        }
        for (name, text), found in scores.items()
    ]
    return CellOutput(pa.Table.from_pylist(rows, schema=MEASURED), prober.cost.forward + prober.cost.side_model_rows)


def check_masked(cell: Cell, parents: Sequence[pa.Table], context: Context) -> CellOutput:
    """p-values of texts masked at random; the parents: the texts to test, those to validate on, and the training."""
    spec = StampSpec.of(cell)
    tested, held_out = (Data(spec.data, table_to_examples(parent), ()) for parent in parents[:2])
    try:
        checked = check(
            context.model(spec), tested, held_out, masking=spec.masking, step=spec.step, seed=spec.seed,
            units=spec.units, references=spec.references,
        )  # fmt: skip
    except TrothError as error:  # what cannot be tested is an answer, too
        return CellOutput(pa.Table.from_pylist([{"why": str(error)}], schema=CHECKS))
    return CellOutput(check_to_table(checked, "random"))


def _read(spec: ModelSpec, cell: Cell, texts: pa.Table, context: Context) -> tuple[TextClassifier, list[Encoding]]:
    model = context.model(spec)
    encodings = context.once(("planted", spec.key, cell.parents[0]), lambda: model.encode(table_to_examples(texts)))
    return model, encodings


def _attribution(
    row: Mapping[str, Any],
    by_id: Mapping[str, Encoding],
    methods: Mapping[str, Explainer],
    model: TextClassifier,
    seed: int,
) -> Attribution:
    method = methods[row["explanation"]]
    return Attribution(
        Question(by_id[row["example_id"]], row["target"], seed=seed), np.array(row["scores"], np.float32),
        signed=method.gives_signed, explainer=method.full_spec, model=model.fingerprint, labels=model.labels,
    )  # fmt: skip


def _measured(
    prober: Prober, explained: Mapping[tuple[str, str], Attribution], keys: Sequence[tuple[str, str]], metric: Metric,
    seed: int, explainer: Explainer | None = None,
) -> list[Score]:  # fmt: skip
    return list(measure_each(prober, [explained[key] for key in keys], metric, explainer=explainer, seed=seed))
