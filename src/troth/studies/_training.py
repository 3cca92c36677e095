"""The runners of studies that train models: a training, and a classifier that reads only rationales."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import torch

from troth.data import Data
from troth.models import load_model
from troth.models._loading import quiet
from troth.store.cells import Cell, CellOutput
from troth.store.specs import ModelSpec, Spec
from troth.store.tables import table_to_examples
from troth.studies._copies import train_copies
from troth.sweep.context import Context
from troth.training import train as fit
from troth.training.quality import predict
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


@dataclass(frozen=True, kw_only=True)
class TrainingSpec(Spec):
    """One model with its folder and its predictions on validation and test, or several copies trained side by side.

    Copies are trained on data from which tokens are erased; `_copies` describes their fields.
    """

    kind = "training"
    runner = "troth.studies._training:train"

    data: str
    labels: Sequence[str]
    recipe: str
    base: str
    settings: Mapping[str, Any]
    seed: int | None = None  # each copy has its own
    copies: Sequence[Mapping[str, Any]] = ()
    model: str | None = None
    examples: int | None = None
    max_length: int | None = None
    masking: str | None = None
    fingerprints: Mapping[str, str] | None = None
    absolute: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        # Stored cells of copies are named with their max_length, even if it is None.
        return super().to_dict() | ({"max_length": self.max_length} if self.copies else {})


@dataclass(frozen=True, kw_only=True)
class FreshSpec(ModelSpec):
    """A classifier that reads only rationales, which the support model (`model`) and an explainer select."""

    kind = "fresh"
    runner = "troth.studies._training:train_on_rationales"

    data: str
    labels: Sequence[str]
    base: str
    settings: Mapping[str, Any]
    seed: int
    explainer_full: str
    ratio: float
    thresholder: Any  # checked by `fresh`


def train(cell: Cell, parents: Sequence[pa.Table], context: Context) -> CellOutput:
    """Trains a model into the cell's folder, or copies side by side; the parents are train, validation and test."""
    spec = TrainingSpec.of(cell)
    if spec.copies:
        return train_copies(cell, parents, context)
    data = _splits(spec, parents)
    with context.new_folder(cell) as folder, _quiet():
        trained = fit.train(
            spec.recipe, data["train"], spec.base, folder, validation=data["validation"], checkpoints=False,
            seed=spec.seed, **spec.settings,
        )  # fmt: skip
        model = load_model(str(trained.folder))
        logits = {split: predict(model, data[split]) for split in ("validation", "test")}
    return CellOutput(_predictions(data, logits), folders=(cell.name,))


def train_on_rationales(cell: Cell, parents: Sequence[pa.Table], context: Context) -> CellOutput:
    """Runs FRESH into the cell's folder; the parents are train, validation, test and the support model's training."""
    spec = FreshSpec.of(cell)
    data = _splits(spec, parents)
    with context.new_folder(cell) as folder, _quiet():
        trained = fresh(
            context.model(spec), data, spec.base, folder, explainer=spec.explainer_full, ratio=spec.ratio,
            thresholder=spec.thresholder, seed=spec.seed, checkpoints=False, **spec.settings,
        )  # fmt: skip
    return CellOutput(_predictions(data, trained.logits), folders=(cell.name,))


@contextmanager
def _quiet() -> Iterator[None]:
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # train.json has these notes
        yield


def _splits(spec: TrainingSpec | FreshSpec, parents: Sequence[pa.Table]) -> dict[str, Data]:
    tables, labels = dict(zip(SPLITS, parents, strict=False)), tuple(spec.labels)
    return {split: Data(spec.data, table_to_examples(table), labels, (), split) for split, table in tables.items()}


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
