"""The works of studies that train models: a training, a classifier of rationales, an explanation of a trained model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import torch

from troth.core.types import Attribution
from troth.data import Data
from troth.engine.prober import Prober
from troth.models import load_model
from troth.models._loading import without_bars
from troth.store.cells import Cell, Made
from troth.store.tables import attributions_to_table, table_to_examples
from troth.sweep.context import Context
from troth.training import train as fit
from troth.training.predicting import predict
from troth.verbs.explain import explain_each
from troth.verbs.fresh import fresh

SPLITS = ("train", "validation", "test")
PREDICTIONS = pa.schema(
    {
        "split": pa.string(),
        "example_id": pa.string(),
        "label": pa.int32(),
        "predicted": pa.int32(),
        "probabilities": pa.list_(pa.float32()),
    }
)


def train(cell: Cell, parents: Sequence[pa.Table], context: Context) -> Made:
    """Trains a model into the cell's folder; the parents are train, validation and test."""
    specs, data = cell.specs, _splits(cell, parents)
    with context.making(cell) as folder, _quiet():
        trained = fit.train(
            specs["recipe"], data["train"], specs["base"], folder, validation=data["validation"], checkpoints=False,
            seed=specs["seed"], **specs["settings"],
        )  # fmt: skip
        model = load_model(str(trained.folder))
        logits = {split: predict(model, data[split]) for split in ("validation", "test")}
    return Made(_predictions(data, logits), folders=(cell.name,))


def train_on_rationales(cell: Cell, parents: Sequence[pa.Table], context: Context) -> Made:
    """FRESH into the cell's folder; the parents are train, validation, test and the support model's training."""
    specs, data = cell.specs, _splits(cell, parents)
    with context.making(cell) as folder, _quiet():
        trained = fresh(
            context.model(specs), data, specs["base"], folder, explainer=specs["explainer_full"], ratio=specs["ratio"],
            thresholder=specs["thresholder"], seed=specs["seed"], checkpoints=False, **specs["settings"],
        )  # fmt: skip
    return Made(_predictions(data, trained.logits), folders=(cell.name,))


def explain(cell: Cell, parents: Sequence[pa.Table], context: Context) -> Made:
    """One attribution per example; the parents are the data and the model's training."""
    specs, prober = cell.specs, Prober(context.model(cell.specs), cell.specs["masking"])
    attributions = explain_each(
        prober, table_to_examples(parents[0]), specs["explainer_full"], units=specs["units"], seed=specs["seed"]
    )
    if specs["magnitude"]:
        attributions = (attribution.magnitude() for attribution in attributions)
    if specs.get("over_sum"):
        attributions = map(over_sum, attributions)
    table = attributions_to_table(attributions)
    return Made(table, prober.cost.forward, prober.cost.backward)


def over_sum(attribution: Attribution) -> Attribution:
    """Scores over their signed sum; unchanged where that is 0."""
    total = float(attribution.scores.sum())
    return attribution if total == 0 else replace(attribution, scores=attribution.scores / total)


@contextmanager
def _quiet() -> Iterator[None]:
    with without_bars(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # train.json has the notes
        yield


def _splits(cell: Cell, parents: Sequence[pa.Table]) -> dict[str, Data]:
    name, labels = cell.specs["data"], tuple(cell.specs["labels"])
    tables = dict(zip(SPLITS, parents, strict=False))
    return {split: Data(name, table_to_examples(table), labels, (), split) for split, table in tables.items()}


def _predictions(data: Mapping[str, Data], logits_by_split: Mapping[str, torch.Tensor]) -> pa.Table:
    rows = [
        {
            "split": split, "example_id": example.id, "label": example.label, "predicted": int(row.argmax()),
            "probabilities": row.softmax(-1).tolist(),
        }
        for split, logits in logits_by_split.items()
        for example, row in zip(data[split], logits.double(), strict=True)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=PREDICTIONS)
