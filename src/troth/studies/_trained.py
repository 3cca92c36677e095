"""Plans of studies that train models and then ask what they have learned: trainings, rationale classifiers,
explanations and scores, each stored, so that a study resumes where it stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from troth.core import catalog
from troth.core.units import UnitName
from troth.data import Data
from troth.store.cells import Cell, Plan
from troth.store.specs import DataSpec, ExplanationSpec, MetricSpec, ModelSpec, SourceSpec
from troth.store.tables import examples_to_table
from troth.studies._material import Material
from troth.studies._works import FreshSpec, TrainingSpec


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
        self, model: Cell, explainer: str, *, units: UnitName = "token", split: str = "test", target: str = "predicted",
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
