"""Plans of studies that train models and then ask what they have learned: trainings, rationale classifiers,
explanations and scores, each stored, so that a study resumes where it stopped.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from troth.core import catalog
from troth.core.units import UnitKind, word_spans
from troth.data import Data
from troth.store.cells import Cell, Plan
from troth.store.specs import DataSpec, ExplanationSpec, MetricSpec, ModelSpec, SourceSpec
from troth.store.tables import examples_to_table
from troth.studies._works import SPLITS, FreshSpec, TrainingSpec
from troth.training import bases, presets, recipes
from troth.training import settings as every_setting
from troth.training.examples import Source, entry_of, load_three_splits


@dataclass(frozen=True, eq=False)
class Material:
    """A data set in three splits, whose labels are class numbers."""

    name: str
    labels: tuple[str, ...]
    splits: Mapping[str, Data]

    @property
    def pair(self) -> bool:
        return self.splits["train"][0].text_pair is not None

    @property
    def sizes(self) -> list[float]:
        """How many examples each split has, and the mean number of words of the first 2,000 texts to train on."""
        lengths = [len(word_spans(example.text)) for example in self.splits["train"][:2000]]
        return [*(len(self.splits[split]) for split in SPLITS), float(np.mean(lengths))]


def load(source: Source, *, like: str | None = None, limit: int | None = None, examples: int = 0) -> Material:
    """Train, validation and test, as a paper has them, or else as they are; what is missing is held out of train.

    `examples`: how many to test on, 0 = all.
    """
    source = presets.source_like(like, source)
    labeled = load_three_splits(source, hold_out=presets.held_out(like, source), limit=limit)
    test, entry = labeled.others["test"], entry_of(source)
    parts = (labeled.training, labeled.validation, test.limit(examples, seed=0) if examples else test)
    if entry is not None:
        name = catalog.name_of(entry)
    else:
        name = Path(source).stem if isinstance(source, str | os.PathLike) else labeled.name
    splits = {split: replace(part, name=name, labels=labeled.labels) for split, part in zip(SPLITS, parts, strict=True)}
    return Material(name, labeled.labels, splits)


def settings_like(
    paper: str | None, recipe: recipes.RecipeLike, base: str, material: Material, **changed: Any
) -> tuple[str, dict[str, Any]]:
    """A recipe with its λ; the base's settings, then the paper's, then the changed ones (0 and "" change nothing)."""
    start = bases.build(base)
    method = presets.recipe_like(paper, recipes.build(recipe), material.name)
    user = {name: value for name, value in changed.items() if value}
    without = ("head_learning_rate",) if "learning_rate" in user else ()
    settings = presets.resolve(user, paper, method, start, material.name, pair=material.pair, without=without)
    fields = {field.name for field in dataclasses.fields(every_setting.Settings)}
    # A wrong value is refused before any work.
    every_setting.settings(**{name: value for name, value in settings.items() if name in fields})
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
    return recipes.spec(method, full=True), plain


class Trials:
    """A plan of trainings on one data set, and of what is asked of the trained models."""

    def __init__(self, material: Material, base: str, plan: Plan | None = None) -> None:
        self.material, self.base = material, base
        self.plan = Plan() if plan is None else plan
        self.data = {split: self._data(split, part) for split, part in material.splits.items()}

    def _data(self, split: str, data: Data) -> Cell:
        spec = DataSpec(
            data=data.name, split=split, examples=len(data), data_fingerprint=data.fingerprint, labels=data.labels
        )
        return self.plan.add(spec.cell(), examples_to_table(data))

    def training(self, recipe: str, settings: Mapping[str, Any], seed: int) -> Cell:
        """A model folder, and the model's predictions on validation and test."""
        spec = TrainingSpec(**self._about(settings, seed), recipe=recipe)
        return self.plan.add(spec.cell(*self.data.values()))

    def fresh(
        self, support: Cell | ModelSpec, explainer: str, ratio: float, thresholder: str, settings: Mapping[str, Any],
        seed: int,
    ) -> Cell:  # fmt: skip
        """A classifier of rationales alone, and its predictions on those of validation and test.

        The support model is a training, or an existing model (Context.model_spec).
        """
        model = ModelSpec(model=f"cell:{support.name}") if isinstance(support, Cell) else support
        spec = FreshSpec(
            **vars(model), **self._about(settings, seed), explainer_full=_full(explainer), ratio=ratio,
            thresholder=thresholder,
        )  # fmt: skip
        return self.plan.add(spec.cell(*self.data.values(), *([support] if isinstance(support, Cell) else [])))

    def _about(self, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
        labels = self.material.labels
        return {"data": self.material.name, "labels": labels, "base": self.base, "settings": settings, "seed": seed}

    def explanation(
        self, model: Cell, explainer: str, *, units: UnitKind = "token", split: str = "test", target: str = "predicted",
        magnitude: bool = False, over_sum: bool = False,
    ) -> Cell:  # fmt: skip
        """Attributions for the predicted or the gold class; `over_sum` divides them by their signed sum."""
        data = self.data[split]
        spec = ExplanationSpec(
            **vars(SourceSpec.of(data)), model=f"cell:{model.name}", units=units, target=target, against=None,
            segments="first", masking=_full("mask_token", "maskings"), explainer=explainer,
            explainer_full=_full(explainer), magnitude=magnitude, seed=model.specs["seed"], over_sum=over_sum,
        )  # fmt: skip
        return self.plan.add(spec.cell(data, model))

    def metric(self, explanation: Cell, metric: str) -> Cell:
        """Scores of an explanation."""
        spec = MetricSpec(**explanation.specs, metric=metric, metric_full=_full(metric, "metrics"))
        return self.plan.add(spec.cell(explanation, explanation.parents[0]))


def _full(spec: str, kind: str = "explainers") -> str:
    return catalog.spec(catalog.build(kind, spec), full=True)
