"""Cells of studies that train models and then look at what they have learned: trainings, rationale classifiers,
explanations and scores, each stored, so that a study goes on where it stopped.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Score
from troth.core.units import UnitKind
from troth.data import Data
from troth.models import load_model
from troth.models._loading import without_bars
from troth.statistics import Floats
from troth.store.cells import Cell, Output, Plan
from troth.store.specs import DataSpec, ExplanationSpec, MetricSpec, ModelSpec, SourceSpec, Spec
from troth.store.store import Store
from troth.store.tables import examples_to_table, table_to_examples, table_to_scores
from troth.sweep.context import Context
from troth.training import bases, presets, recipes
from troth.training import settings as every_setting
from troth.training import train as fit
from troth.training.examples import Labeled, Source, entry_of, load_labeled, splits_of
from troth.training.predicting import predict
from troth.training.quality import quality
from troth.verbs.fresh import fresh

PREDICTIONS = pa.schema(
    {
        "split": pa.string(),
        "example_id": pa.string(),
        "label": pa.int32(),
        "predicted": pa.int32(),
        "probabilities": pa.list_(pa.float32()),
    }
)
_SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class Material:
    """A data set in three splits, whose labels are class numbers."""

    name: str
    labels: tuple[str, ...]
    splits: Mapping[str, Data]

    @property
    def pair(self) -> bool:
        return self.splits["train"][0].text_pair is not None


def load(source: Source, *, like: str | None = None, limit: int | None = None, examples: int = 0) -> Material:
    """Train, validation and test, as a paper has them or else as they are; what is missing is held out of train.

    `examples`: so many to test on, 0 = all.
    """
    source = presets.source_like(like, source)
    hold_out = presets.held_out(like, source)
    if "test" in (splits_of(source, entry_of(source)) or ()):
        labeled = load_labeled(source, hold_out=hold_out, tests=("test",), limit=limit)
        test = labeled.others["test"]
    else:
        outer: Labeled = load_labeled(source, hold_out=None, limit=limit)
        test = outer.validation
        labeled = load_labeled(replace(outer.training, labels=outer.labels), hold_out=hold_out)
    entry = entry_of(source)
    parts = (labeled.training, labeled.validation, test.limit(examples, seed=0) if examples else test)
    known = catalog.name_of(entry) if entry is not None else ""
    name = known or (Path(source).stem if isinstance(source, str | os.PathLike) else labeled.name)
    found = {split: replace(part, name=name, labels=labeled.labels) for split, part in zip(_SPLITS, parts, strict=True)}
    return Material(name, labeled.labels, found)


def settings_like(
    paper: str | None, recipe: recipes.RecipeLike, base: str, material: Material, **given: Any
) -> tuple[str, dict[str, Any]]:
    """A recipe with its λ settled, and a base's settings, then a paper's, then the given ones (0 and "" are none)."""
    start = bases.build(base)
    method = presets.recipe_like(paper, recipes.build(recipe), material.name)
    settings = dict(start.settings(material.name, pair=material.pair))
    if paper is not None:
        settings |= presets.like(paper, method, start, material.name, pair=material.pair)
    settings.pop("hold_out", None)  # `load` is told
    if given.get("learning_rate"):
        settings.pop("head_learning_rate", None)
    settings |= {name: value for name, value in given.items() if value}
    fields = {field.name for field in dataclasses.fields(every_setting.Settings)}
    every_setting.settings(
        **{name: value for name, value in settings.items() if name in fields}
    )  # refused before any work
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
    return recipes.spec(method, full=True), plain


@dataclass(frozen=True, kw_only=True)
class TrainingSpec(Spec):
    """A model folder, and what the model says of validation and test."""

    kind = "training"
    work = "troth.studies._trained:train"

    data: str
    labels: Sequence[str]
    recipe: str
    base: str
    settings: Mapping[str, Any]
    seed: int


@dataclass(frozen=True, kw_only=True)
class FreshSpec(ModelSpec):
    """A classifier of rationales alone, which the support model (`model`) and an explainer choose."""

    kind = "fresh"
    work = "troth.studies._trained:train_on_rationales"

    data: str
    labels: Sequence[str]
    base: str
    settings: Mapping[str, Any]
    seed: int
    explainer_full: str
    ratio: float
    thresholder: Any  # checked by `fresh`


class Trials:
    """A plan of trainings on one data set, and of what is asked of the models they make."""

    def __init__(self, material: Material, base: str, plan: Plan | None = None) -> None:
        self.material, self.base = material, base
        self.plan = Plan() if plan is None else plan
        self.data = {split: self._data(split, part) for split, part in material.splits.items()}

    def _data(self, split: str, data: Data) -> Cell:
        spec = DataSpec(
            data=data.name, split=split, examples=len(data), data_fingerprint=data.fingerprint, labels=data.labels
        )
        return self.plan.add(spec.cell(), examples_to_table(data))

    @property
    def _parents(self) -> tuple[str, ...]:
        return tuple(self.data[split].name for split in _SPLITS)

    def training(self, recipe: str, settings: Mapping[str, Any], seed: int) -> Cell:
        """A model folder, and what the model says of validation and test."""
        spec = TrainingSpec(
            data=self.material.name, labels=self.material.labels, recipe=recipe, base=self.base,
            settings=dict(settings), seed=seed,
        )  # fmt: skip
        return self.plan.add(spec.cell(*self._parents))

    def fresh(
        self,
        support: Cell | ModelSpec,
        explainer: str,
        ratio: float,
        thresholder: str,
        settings: Mapping[str, Any],
        seed: int,
    ) -> Cell:
        """A classifier of rationales alone, and what it says of those of validation and test.

        The support model is a training, or a model that there is already (Context.model_spec).
        """
        model = ModelSpec(model=f"cell:{support.name}") if isinstance(support, Cell) else support
        spec = FreshSpec(
            **vars(model), data=self.material.name, labels=self.material.labels, base=self.base,
            settings=dict(settings), seed=seed, explainer_full=_full(explainer), ratio=ratio, thresholder=thresholder,
        )  # fmt: skip
        return self.plan.add(spec.cell(*self._parents, *([support] if isinstance(support, Cell) else [])))

    def explanation(
        self,
        model: Cell,
        explainer: str,
        *,
        units: UnitKind = "token",
        split: str = "test",
        magnitude: bool = False,
        over_sum: bool = False,
    ) -> Cell:
        """Attributions for the class a trained model predicts; `over_sum`: over their sum, whatever its sign."""
        data = self.data[split]
        spec = ExplanationSpec(
            **vars(SourceSpec.of(data)), model=f"cell:{model.name}", units=units, target="predicted", against=None,
            segments="first", masking=_full("mask_token", "maskings"), explainer=explainer,
            explainer_full=_full(explainer), magnitude=magnitude, seed=model.specs["seed"], over_sum=over_sum,
        )  # fmt: skip
        return self.plan.add(spec.cell(data, model))

    def metric(self, explanation: Cell, metric: str) -> Cell:
        """Scores of an explanation."""
        spec = MetricSpec(**explanation.specs, metric=metric, metric_full=_full(metric, "metrics"))
        return self.plan.add(spec.cell(explanation, explanation.parents[0]))


# The works


def train(cell: Cell, parents: Sequence[pa.Table], context: Context) -> Output:
    """Trains a model into the cell's folder; the parents are train, validation and test."""
    spec = TrainingSpec.of(cell)
    data = _splits(spec, parents)
    with context.new_folder(cell) as folder, _quiet():
        trained = fit.train(
            spec.recipe, data["train"], spec.base, folder, validation=data["validation"], checkpoints=False,
            seed=spec.seed, **spec.settings,
        )  # fmt: skip
        model = load_model(str(trained.folder))
        logits = {split: predict(model, data[split]) for split in ("validation", "test")}
    return Output(_predictions(data, logits), folders=(cell.name,))


def train_on_rationales(cell: Cell, parents: Sequence[pa.Table], context: Context) -> Output:
    """FRESH into the cell's folder; the parents are train, validation, test and the support model's training."""
    spec = FreshSpec.of(cell)
    data = _splits(spec, parents)
    with context.new_folder(cell) as folder, _quiet():
        done = fresh(
            context.model(spec), data, spec.base, folder, explainer=spec.explainer_full, ratio=spec.ratio,
            thresholder=spec.thresholder, seed=spec.seed, checkpoints=False, **spec.settings,
        )  # fmt: skip
    return Output(_predictions(data, done.logits), folders=(cell.name,))


# What was stored


class Results:
    """What a store holds of a plan's cells; what could not be made is missing, not an error."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def table(self, cell: Cell) -> pa.Table | None:
        """A cell's rows."""
        return self.store.table(cell.name) if self.store.has(cell.name) else None

    def scores(self, cell: Cell) -> list[Score]:
        """A metric's, one an example."""
        table = self.table(cell)
        return [] if table is None else table_to_scores(table)

    def values(self, cell: Cell) -> Floats:
        """A metric's values; NaN where one is undefined."""
        return np.array([score.value for score in self.scores(cell)], np.float64)

    def predicted(self, cell: Cell, split: str = "test") -> tuple[Any, Any]:
        """Labels and predictions of a trained model."""
        rows = [row for row in self._rows(cell) if row["split"] == split]
        return np.array([row["label"] for row in rows]), np.array([row["predicted"] for row in rows])

    def quality(self, cell: Cell, metric: Any = "macro_f1", split: str = "test") -> float:
        """How well a trained model does."""
        rows = [row for row in self._rows(cell) if row["split"] == split]
        if not rows:
            return float("nan")
        logits = torch.tensor([row["probabilities"] for row in rows]).clamp(min=1e-12).log()
        return quality(metric, logits, torch.tensor([row["label"] for row in rows]))

    def _rows(self, cell: Cell) -> list[dict[str, Any]]:
        table = self.table(cell)
        return [] if table is None else table.to_pylist()

    def troubles(self, plan: Plan) -> str:
        """What failed and why, each error once; where no model could be trained, that is for the user to fix."""
        failures = [self.store.failure(name) for name in plan.cells if not self.store.has(name)]
        errors: dict[tuple[str, str], dict[str, None]] = {}  # (kind, why) -> methods
        for one in failures:
            if one is not None:
                methods = filter(None, (one.specs.get("explainer"), one.specs.get("metric")))
                errors.setdefault((one.kind, one.error), {})[" × ".join(methods)] = None
        words = [
            f"{kind} failed{f' ({named})' if (named := ', '.join(filter(None, methods))) else ''}: {why}"
            for (kind, why), methods in errors.items()
        ]
        trainings = list(plan.of("training"))
        if errors and trainings and not any(self.store.has(cell.name) for cell in trainings):
            raise TrothError(words[0])
        return "; ".join(words)


def require_base(base: str | None, why: str) -> str:
    """One line where no base was named."""
    if not base:
        raise TrothError(f"name a model to start from: --base FOLDER_OR_HUB_NAME{why}")
    return base


@contextmanager
def _quiet() -> Iterator[None]:
    with without_bars(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # train.json has the notes
        yield


def _splits(spec: TrainingSpec | FreshSpec, parents: Sequence[pa.Table]) -> dict[str, Data]:
    tables, labels = dict(zip(_SPLITS, parents, strict=False)), tuple(spec.labels)
    return {split: Data(spec.data, table_to_examples(table), labels, (), split) for split, table in tables.items()}


def _predictions(data: Mapping[str, Data], said: Mapping[str, torch.Tensor]) -> pa.Table:
    rows = []
    for split, logits in said.items():
        for example, row in zip(data[split], logits.double(), strict=True):
            rows.append(
                {
                    "split": split, "example_id": example.id, "label": example.label,
                    "predicted": int(row.argmax()), "probabilities": row.softmax(-1).tolist(),
                }
            )  # fmt: skip
    return pa.Table.from_pylist(rows, schema=PREDICTIONS)


def _full(spec: str, kind: str = "explainers") -> str:
    return catalog.spec(catalog.build(kind, spec), full=True)
