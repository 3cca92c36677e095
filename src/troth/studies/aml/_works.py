"""The works of the AML study: a classifier for data that the given model has no classes for, and attribution models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import torch

from troth.attribution_model.losses import DualMask
from troth.store.cells import Cell, Output
from troth.store.specs import ModelSpec, Spec
from troth.sweep.context import Context
from troth.training import train as training
from troth.verbs import fit as attributive_masking


@dataclass(frozen=True, kw_only=True)
class ClassifierSpec(Spec):
    kind = "classifier"
    work = "troth.studies.aml._works:train_classifier"

    base: str
    data: str
    epochs: int
    batch_size: int
    learning_rate: float
    limit: int | None
    seed: int


@dataclass(frozen=True, kw_only=True)
class AttributionModelsSpec(ModelSpec):
    kind = "attribution_models"
    work = "troth.studies.aml._works:fit_attribution_models"

    data: str
    backbone: str | None
    metrics: Sequence[str]
    recipe: str  # the variant of the loss
    without: Sequence[str]
    form: Mapping[str, Any]
    settings: Mapping[str, Any]


def train_classifier(cell: Cell, parents: Sequence[pa.Table], context: Context) -> Output:
    """A plainly fine-tuned model folder; the row says how good it is."""
    spec = ClassifierSpec.of(cell)
    with context.new_folder(cell) as folder:
        trained = training.train(
            "plain", spec.data, spec.base, folder, epochs=spec.epochs, batch_size=spec.batch_size,
            learning_rate=spec.learning_rate, limit=spec.limit, seed=spec.seed,
        )  # fmt: skip
    _give_back()
    metric = trained.report["metric"]
    score = trained.scores["validation"]["unmasked"][metric]
    rows = [{"metric": metric, "value": score, "seconds": trained.report["seconds"]}]
    return Output(pa.Table.from_pylist(rows), folders=(cell.name,))


def fit_attribution_models(cell: Cell, parents: Sequence[pa.Table], context: Context) -> Output:
    """A folder with an attribution model for each metric; a row for each, with the weights of its losses."""
    spec = AttributionModelsSpec.of(cell)
    with context.new_folder(cell) as folder:
        fitted = attributive_masking.fit(
            context.model(spec), spec.data, folder, backbone=spec.backbone, metrics=spec.metrics, without=spec.without,
            form=DualMask(**spec.form), settings=attributive_masking.Settings(**spec.settings),
        )  # fmt: skip
        rows = [
            {
                "metric": metric,
                "split": report["data"]["split"],
                "backbone": report["backbone"],
                "sampler": report["search"]["sampler"],
                "seconds": report["seconds"],
                **{name: float(report["loss"][name]) for name in ("prediction", "sparsity", "inverse")},
            }
            for metric, report in fitted.reports.items()
        ]
    _give_back()
    return Output(pa.Table.from_pylist(rows), folders=(cell.name,))


def _give_back() -> None:
    """Memory of a GPU that a training needed and nobody uses any more; other processes may wait for it."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
