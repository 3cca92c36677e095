"""Reads a retraining benchmark from its store: curves of performance as more is erased, RACU, sparsity, wall time."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
from troth.studies._copies import ALL, Training, importance
from troth.studies._results import Range, Results, estimate
from troth.studies.roar._plan import Planner, Way
from troth.training.quality import quality
from troth.training.settings import Metric

SHORT = "one-token steps do not lead to 100 %, which RACU is relative to"
FLAT = "performance does not fall when tokens are erased at random (RACU's denominator ≤ 0)"
_SURE = 2.0  # number of standard errors by which a curve must rise
_MANY = 0.1  # share of the trainings


@dataclass(frozen=True, eq=False)
class Curve:
    """The performance as more and more tokens are erased in the order of one importance measure, and at random."""

    explainer: str
    way: Way
    counted: str  # unit of the x-axis: "share" or number of "tokens" erased
    places: list[float]  # shares or numbers of tokens, from 0
    performance: Floats  # [seeds, places]
    random: Floats  # [seeds, places]
    tests: int  # number of test examples
    variant: Variant = "paper"

    @property
    def racu(self) -> Floats:
        """[seeds] the area between the curves, relative to the largest possible area."""
        if self.counted != "share":
            return np.full(len(self.performance), np.nan)
        clip = self.variant == "released"
        return np.atleast_1d(formulas.racu(self.places, self.performance, self.random, clip=clip))

    @property
    def acu(self) -> Floats:
        """[seeds] the area between the curves."""
        return np.atleast_1d(formulas.acu(self.places, self.performance, self.random))

    @property
    def faithfulness(self) -> Range:
        """RACU over seeds with its interval; NaN if no seed has one, with the reason in `why`."""
        return estimate(self.racu)

    @property
    def why(self) -> str:
        """The reason why a seed has no RACU."""
        if self.counted != "share":
            return SHORT
        return FLAT if np.isnan(self.racu).any() else ""

    @property
    def mean(self) -> list[float]:
        return [float(value) for value in self.performance.mean(0)]

    @property
    def intervals(self) -> list[tuple[float, float]]:
        """The interval of the mean over seeds at each point."""
        return [estimate(column)[1:] for column in self.performance.T]

    @property
    def rises(self) -> list[float]:
        """The points where performance rises although more is erased: the masked positions leak the class.

        A rise is above the lowest earlier point by two standard errors, over seeds and test examples.
        """
        means = self.performance.mean(0)
        rises = []
        last = len(means) - 1 if self.counted == "share" else len(means)  # at 100 %, nothing was chosen
        for place in range(1, last):
            lowest = int(means[:place].argmin())
            rise = self.performance[:, place] - self.performance[:, lowest]
            seeds = rise.var(ddof=1) / len(rise) if len(rise) > 1 else 0.0
            spread = sum(mean * (1 - mean) for mean in means[[place, lowest]]) / self.tests
            if rise.mean() > _SURE * np.sqrt(seeds + spread):
                rises.append(self.places[place])
        return rises

    @property
    def warning(self) -> str:
        """One line if a curve rises, else empty."""
        if not self.rises:
            return ""
        where = ", ".join(f"{place:.0%}" if self.counted == "share" else f"{place:.0f} tokens" for place in self.rises)
        rises = f"class leakage: with {self.explainer} performance rises at {where}"
        return f"{rises}, so which tokens are masked gives the class away"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        value, low, high = self.faithfulness
        return {
            "explainer": self.explainer, "way": self.way, "places": self.places, "counted": self.counted,
            "performance": self.mean, "intervals": [list(interval) for interval in self.intervals],
            "random": [float(mean) for mean in self.random.mean(0)], "by_seed": self.performance.tolist(),
            "random_by_seed": self.random.tolist(), "racu": value, "racu_interval": [low, high],
            "racu_by_seed": self.racu.tolist(), "acu": float(self.acu.mean()), "why": self.why, "rises": self.rises,
        }  # fmt: skip


class Reader:
    """Reads the trainings and importances of a planned benchmark from the store."""

    def __init__(self, planner: Planner, store: Store, *, variant: Variant = "paper") -> None:
        self.planner, self.subject, self.results, self.variant = planner, planner.subject, Results(store), variant
        self.labels = torch.tensor([example.class_index or 0 for example in self.subject.sets["test"]])
        self.scores: dict[str, float] = {}  # by training
        self.seconds: dict[str, float] = {}
        # By training on partly erased texts: whether its last epoch was the best.
        self.still_learned: dict[str, bool] = {}
        metric, classes = self.subject.score, len(self.subject.labeled.labels)
        for row in itertools.chain.from_iterable(map(self.results.rows, planner.plan.of("training"))):
            self.scores[row["training"]] = performance(metric, row["predicted"], self.labels, classes)
            self.seconds[row["training"]] = row["seconds"]
            if row["trail"] and (row["counted"] == "tokens" or row["trail"][-1] < ALL):
                self.still_learned[row["training"]] = row["best_epoch"] == self.subject.settings.epochs

    @property
    def too_short(self) -> str:
        """One line if many models were still improving, else empty; the curve of such models can rise."""
        late, trained = sum(self.still_learned.values()), len(self.still_learned)
        if late < _MANY * trained or not late:
            return ""
        epochs = self.subject.settings.epochs
        late_ones = f"{late} of {trained} models of erased texts were best in their last epoch ({epochs})"
        return f"{late_ones}: with more epochs the curves may change"

    def curves(self, way: Way) -> list[Curve]:
        """The curves whose trainings all succeeded."""
        curves = [self.curve(explainer, way) for explainer in self.subject.methods]
        return [curve for curve in curves if curve is not None]

    def curve(self, explainer: Explainer, way: Way) -> Curve | None:
        """A curve; None if one of its trainings failed."""
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
        """[seeds, tops or ratios] the share of all importance in the top tokens, on the texts of a split, by the 0 %
        model.
        """
        sizes = {name: len(data) for name, data in self.subject.sets.items()}
        place = list(sizes).index(split)  # an importance cell has the splits one after the other
        begin = sum(list(sizes.values())[:place])
        by_top, by_ratio = [], []
        for seed in self.planner.seeds:
            cell = self.planner.importances[Training(seed)][catalog.spec(explainer, full=True)]
            if (stored := self.results.table(cell)) is None:
                return None
            table = stored.slice(begin, sizes[split])
            _, scores = importance(table)
            lengths = [len(row) for row in table.column("scores").to_pylist()]
            parts = [part for part in np.split(scores, np.cumsum(lengths)[:-1]) if len(part)]
            by_top.append(np.nanmean([formulas.top_share(part, TOPS) for part in parts], axis=0))
            ratios = [formulas.sparsity(part, RATIOS, variant=self.variant) for part in parts]
            by_ratio.append(np.nanmean(ratios, axis=0))
        return {"by_top": np.array(by_top), "by_ratio": np.array(by_ratio)}

    def performances(self) -> list[float]:
        """The performance of the models with nothing erased, by seed; failed trainings are left out."""
        names = [Training(seed).name(self.planner.common) for seed in self.planner.seeds]
        return [self.scores[name] for name in names if name in self.scores]

    def times(self) -> dict[str, dict[str, float]]:
        """The mean seconds of one training and of one importance of all examples, by measure."""
        cells = {cell.name: cell.seconds for cell in self.results.store.cells() if not cell.error}
        times = {}
        for explainer in (Random(), *self.subject.methods):
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
