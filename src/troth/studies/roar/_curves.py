"""What a retraining benchmark came to, from stored rows: curves of performance, RACU, class leakage, sparsity, time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from troth import statistics
from troth.core import catalog
from troth.explainers import Explainer
from troth.explainers.random import Random
from troth.metrics import formulas
from troth.metrics.formulas import Variant
from troth.metrics.sparsity import RATIOS, TOPS
from troth.store.cells import Cell
from troth.store.store import Store
from troth.studies.roar._plan import Planner, Training, Way
from troth.studies.roar._works import importance
from troth.training.quality import quality
from troth.training.settings import Metric

Floats = NDArray[np.float64]
Estimate = tuple[float, float, float]  # value, low, high

SHORT = "one-token steps do not lead to 100 %, which RACU is relative to"
FLAT = "performance does not fall when tokens are erased at random (RACU's denominator ≤ 0)"
_SURE = 2.0  # standard errors by which a curve must rise


@dataclass(frozen=True, eq=False)
class Curve:
    """Performance as more and more tokens are erased in the order of one importance measure, and at random."""

    explainer: str
    way: Way
    counted: str  # "share" or "tokens" erased
    places: list[float]  # shares or numbers of tokens, from 0
    performance: Floats  # [seeds, places]
    random: Floats  # [seeds, places]
    tests: int  # examples
    variant: Variant = "paper"

    @property
    def racu(self) -> Floats:
        """[seeds] the area between the curves, relative to the largest there can be."""
        if self.counted != "share":
            return np.full(len(self.performance), np.nan)
        clip = self.variant == "released"
        return np.atleast_1d(formulas.racu(self.places, self.performance, self.random, clip=clip))

    @property
    def acu(self) -> Floats:
        """[seeds] the area between the curves."""
        return np.atleast_1d(formulas.acu(self.places, self.performance, self.random))

    @property
    def faithfulness(self) -> Estimate:
        """RACU over seeds with its interval; NaN where no seed has one, and `why` says so."""
        return estimate(self.racu)

    @property
    def why(self) -> str:
        """Why a seed has no RACU."""
        if self.counted != "share":
            return SHORT
        return FLAT if np.isnan(self.racu).any() else ""

    @property
    def mean(self) -> list[float]:
        return [float(value) for value in self.performance.mean(0)]

    @property
    def intervals(self) -> list[tuple[float, float]]:
        """Of the mean over seeds, at each place."""
        return [statistics.bca_interval(column) for column in self.performance.T]

    @property
    def rises(self) -> list[float]:
        """Places where more is erased and yet performance is surely higher than before: what is masked tells the class.

        Higher than the lowest point so far by two standard errors, of seeds and of the test examples.
        """
        means = self.performance.mean(0)
        found = []
        last = len(means) - 1 if self.counted == "share" else len(means)  # at 100 % nothing was chosen
        for place in range(1, last):
            lowest = int(means[:place].argmin())
            rise = self.performance[:, place] - self.performance[:, lowest]
            seeds = rise.var(ddof=1) / len(rise) if len(rise) > 1 else 0.0
            spread = sum(means[one] * (1 - means[one]) for one in (place, lowest)) / self.tests
            if rise.mean() > _SURE * np.sqrt(seeds + spread):
                found.append(self.places[place])
        return found

    @property
    def warning(self) -> str:
        """One line where a curve rises, else nothing."""
        if not self.rises:
            return ""
        where = ", ".join(f"{place:.0%}" if self.counted == "share" else f"{place:.0f} tokens" for place in self.rises)
        said = f"class leakage: with {self.explainer} performance rises at {where}"
        return f"{said}, so which tokens are masked tells the class"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        value, low, high = self.faithfulness
        return {
            "explainer": self.explainer,
            "way": self.way,
            "places": self.places,
            "counted": self.counted,
            "performance": self.mean,
            "intervals": [list(interval) for interval in self.intervals],
            "random": [float(mean) for mean in self.random.mean(0)],
            "by_seed": self.performance.tolist(),
            "random_by_seed": self.random.tolist(),
            "racu": value,
            "racu_interval": [low, high],
            "racu_by_seed": self.racu.tolist(),
            "acu": float(self.acu.mean()),
            "why": self.why,
            "rises": self.rises,
        }


def estimate(values: Floats) -> Estimate:
    """Mean and BCa interval over seeds, undefined ones left out."""
    known = values[~np.isnan(values)]
    return (float(known.mean()) if len(known) else float("nan"), *statistics.bca_interval(known))


class Reader:
    """Reads a planned benchmark's results out of its store."""

    def __init__(self, planner: Planner, store: Store, *, variant: Variant = "paper") -> None:
        self.planner, self.store, self.variant = planner, store, variant
        test = planner.subject.labeled.others["test"]
        self.labels = torch.tensor([int(example.label or 0) for example in test])
        self.scores: dict[str, float] = {}  # by training
        self.seconds: dict[str, float] = {}
        for cell in planner.plan.of("training"):
            if store.has(cell.name):
                for row in store.table(cell.name).to_pylist():
                    self.scores[row["training"]] = self._score(row["predicted"])
                    self.seconds[row["training"]] = row["seconds"]

    def _score(self, predicted: Sequence[int]) -> float:
        classes = len(self.planner.subject.labeled.labels)
        return performance(self.planner.subject.score, predicted, self.labels, classes)

    def curve(self, explainer: Explainer, way: Way) -> Curve | None:
        """None where one of its trainings failed."""
        planner, steps = self.planner, self.planner.steps
        amounts = (0, *steps.amounts)

        def values(by: str, how: Way) -> Floats | None:
            rows = [[self._of(planner.training(by, how, seed, amount)) for amount in amounts] for seed in planner.seeds]
            return None if any(value is None for row in rows for value in row) else np.array(rows, np.float64)

        own = values(catalog.spec(explainer, full=True), way)
        random = values(catalog.spec(Random(), full=True), "once")
        if own is None or random is None:
            return None
        name = catalog.spec(explainer)
        return Curve(name, way, steps.counted, steps.places, own, random, len(self.labels), self.variant)

    def _of(self, training: Training) -> float | None:
        return self.scores.get(training.name(self.planner.common))

    def sparsity(self, explainer: Explainer) -> dict[str, Floats] | None:
        """[seeds, tops or ratios] share of all importance the top tokens hold, on the test texts of the 0 % model."""
        found: dict[str, list[Floats]] = {"by_top": [], "by_ratio": []}
        for seed in self.planner.seeds:
            cell = self.planner.importances[Training(seed)][catalog.spec(explainer, full=True)]
            if not self.store.has(cell.name):
                return None
            table = self.store.table(cell.name)
            _, scores = importance(table)
            lengths = [len(row) for row in table.column("scores").to_pylist()]
            parts = np.split(scores, np.cumsum(lengths)[:-1])[-len(self.labels) :]
            parts = [part for part in parts if len(part)]
            found["by_top"].append(np.nanmean([formulas.top_share(part, TOPS) for part in parts], axis=0))
            ratios = [formulas.sparsity(part, RATIOS, variant=self.variant) for part in parts]
            found["by_ratio"].append(np.nanmean(ratios, axis=0))
        return {name: np.array(rows) for name, rows in found.items()}

    def times(self, explainers: Sequence[Explainer]) -> dict[str, dict[str, float]]:
        """Mean seconds of one training and of one importance of all examples, by measure."""
        cells = {one.name: one.seconds for one in self.store.cells() if not one.error}
        found: dict[str, dict[str, float]] = {}
        trained = [
            (training, self.seconds[name])
            for training in self.planner.trained_in
            if (name := training.name(self.planner.common)) in self.seconds
        ]
        for explainer in (Random(), *explainers):
            by = catalog.spec(explainer, full=True)
            own = [seconds for training, seconds in trained if training.by == by]
            explained = [cells[cell.name] for cell in self._importances(by) if cell.name in cells]
            found[catalog.spec(explainer)] = {
                "training": float(np.mean(own)) if own else float("nan"),
                "importance": float(np.mean(explained)) if explained else float("nan"),
            }
        return found

    def _importances(self, by: str) -> list[Cell]:
        return [cell for cell in self.planner.plan.of("importance") if cell.specs["explainer_full"] == by]


def performance(metric: Metric, predicted: Sequence[int], labels: torch.Tensor, classes: int) -> float:
    """The metric of some predicted classes."""
    said = torch.nn.functional.one_hot(torch.tensor(predicted), classes).float()
    return quality(metric, said, labels)


def as_table(curves: Sequence[Curve]) -> list[Mapping[str, Any]]:
    """Every curve as plain data."""
    return [curve.to_dict() for curve in curves]
