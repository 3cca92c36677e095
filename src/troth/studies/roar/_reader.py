"""Reads a retraining benchmark out of its store: curves of performance, sparsity, wall time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from troth import statistics
from troth.core import catalog
from troth.explainers import Explainer
from troth.explainers.random import Random
from troth.metrics import formulas
from troth.metrics.formulas import Variant
from troth.metrics.sparsity import RATIOS, TOPS
from troth.statistics import Floats
from troth.store.store import Store
from troth.studies.roar._curves import Curve
from troth.studies.roar._plan import Planner, Training, Way
from troth.studies.roar._steps import ALL
from troth.studies.roar._works import importance
from troth.training.quality import quality
from troth.training.settings import Metric

_MANY = 0.1  # of the trainings


class Reader:
    def __init__(self, planner: Planner, store: Store, *, variant: Variant = "paper") -> None:
        self.planner, self.store, self.variant = planner, store, variant
        test = planner.subject.labeled.others["test"]
        self.labels = torch.tensor([example.class_index or 0 for example in test])
        self.scores: dict[str, float] = {}  # by training
        self.seconds: dict[str, float] = {}
        self.still_learned: dict[str, bool] = {}  # by training on partly erased texts: whether its last epoch was best
        metric, classes = planner.subject.score, len(planner.subject.labeled.labels)
        for cell in planner.plan.of("training"):
            if store.has(cell.name):
                for row in store.table(cell.name).to_pylist():
                    self.scores[row["training"]] = performance(metric, row["predicted"], self.labels, classes)
                    self.seconds[row["training"]] = row["seconds"]
                    if row["trail"] and (row["counted"] == "tokens" or row["trail"][-1] < ALL):
                        self.still_learned[row["training"]] = row["best_epoch"] == planner.subject.settings.epochs

    @property
    def too_short(self) -> str:
        """One line where many models would have learned more, else nothing; a curve of such models can rise."""
        late, trained = sum(self.still_learned.values()), len(self.still_learned)
        if late < _MANY * trained or not late:
            return ""
        epochs = self.planner.subject.settings.epochs
        late_ones = f"{late} of {trained} models of erased texts were best in their last epoch ({epochs})"
        return f"{late_ones}: with more epochs the curves may change"

    def curves(self, explainers: Sequence[Explainer], way: Way) -> list[Curve]:
        """Those whose trainings all succeeded."""
        curves = [self.curve(explainer, way) for explainer in explainers]
        return [curve for curve in curves if curve is not None]

    def curve(self, explainer: Explainer, way: Way) -> Curve | None:
        """None where one of its trainings failed."""
        planner, steps = self.planner, self.planner.steps

        def values(by: str, how: Way) -> Floats | None:
            names = [
                [planner.training(by, how, seed, amount).name(planner.common) for amount in (0, *steps.amounts)]
                for seed in planner.seeds
            ]
            if not all(name in self.scores for row in names for name in row):
                return None
            return np.array([[self.scores[name] for name in row] for row in names], np.float64)

        own = values(catalog.spec(explainer, full=True), way)
        random = values(catalog.spec(Random(), full=True), "once")
        if own is None or random is None:
            return None
        name = catalog.spec(explainer)
        return Curve(name, way, steps.counted, steps.places, own, random, len(self.labels), self.variant)

    def sparsity(self, explainer: Explainer, split: str = "test") -> dict[str, Floats] | None:
        """[seeds, tops or ratios] share of all importance the top tokens hold, on a split's texts and the 0 % model."""
        sizes = {name: len(data) for name, data in self.planner.subject.sets.items()}
        place = list(sizes).index(split)  # an importance has the splits one after the other
        begin = sum(list(sizes.values())[:place])
        by_top, by_ratio = [], []
        for seed in self.planner.seeds:
            cell = self.planner.importances[Training(seed)][catalog.spec(explainer, full=True)]
            if not self.store.has(cell.name):
                return None
            table = self.store.table(cell.name).slice(begin, sizes[split])
            _, scores = importance(table)
            lengths = [len(row) for row in table.column("scores").to_pylist()]
            parts = [part for part in np.split(scores, np.cumsum(lengths)[:-1]) if len(part)]
            by_top.append(np.nanmean([formulas.top_share(part, TOPS) for part in parts], axis=0))
            ratios = [formulas.sparsity(part, RATIOS, variant=self.variant) for part in parts]
            by_ratio.append(np.nanmean(ratios, axis=0))
        return {"by_top": np.array(by_top), "by_ratio": np.array(by_ratio)}

    def performances(self) -> list[float]:
        """Of the models with nothing erased, by seed; those that failed are left out."""
        names = [Training(seed).name(self.planner.common) for seed in self.planner.seeds]
        return [self.scores[name] for name in names if name in self.scores]

    def times(self, explainers: Sequence[Explainer]) -> dict[str, dict[str, float]]:
        """Mean seconds of one training and of one importance of all examples, by measure."""
        cells = {cell.name: cell.seconds for cell in self.store.cells() if not cell.error}
        times = {}
        for explainer in (Random(), *explainers):
            by = catalog.spec(explainer, full=True)
            names = [training.name(self.planner.common) for training in self.planner.trained_in if training.by == by]
            importances = [
                cell.name for cell in self.planner.plan.of("importance") if cell.specs["explainer_full"] == by
            ]
            times[catalog.spec(explainer)] = {
                "training": statistics.mean([self.seconds[name] for name in names if name in self.seconds]),
                "importance": statistics.mean([cells[name] for name in importances if name in cells]),
            }
        return times


def performance(metric: Metric, predicted: Sequence[int], labels: torch.Tensor, classes: int) -> float:
    """The metric of some predicted classes."""
    return quality(metric, torch.nn.functional.one_hot(torch.tensor(predicted), classes).float(), labels)
