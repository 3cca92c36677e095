"""One data set of the FMM study: the models trained on it, what is computed with them, and the paper's numbers."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

from troth.core import catalog
from troth.core.types import Score
from troth.metrics import formulas
from troth.metrics.formulas import Floats
from troth.metrics.recursive_erasure import RecursiveErasure
from troth.performance import Performance, indicators
from troth.performance import performance as performance_of
from troth.store.cells import Cell
from troth.studies import published
from troth.studies._results import Results, estimate
from troth.studies._trained_study import Experiment, full_spec
from troth.studies.fmm._works import ErasedCheckSpec, HistorySpec, SummarySpec
from troth.training.quality import majority

PRINTED = {
    "boolq": "BoolQ", "cb": "CB", "cola": "CoLA", "imdb": "IMDB", "anemia": "Anemia", "diabetes": "Diabetes",
    "mnli": "MNLI", "mrpc": "MRPC", "qnli": "QNLI", "qqp": "QQP", "rte": "RTE", "snli": "SNLI", "sst2": "SST2",
    "babi1": "bAbI-1", "babi2": "bAbI-2", "babi3": "bAbI-3",
}  # fmt: skip
# Table 10: the three strategies of section 5.1 among the nine of the ablation.
# Plain training under another name, which also reports the performance on masked inputs after every epoch.
PLAIN = "masked(train='no', validate='no')"
TRAININGS = {"plain": PLAIN, "masked": "masked", "only_masking": "masked(train='masking', validate='masking')"}
TRAIN = {"no": "no masking", "masking": "masking", "50/50": "use 50/50"}
VALIDATE = {"no": "no masking", "masking": "masking", "both": "use both"}
# The paper's name of each importance measure, its method and variant in the published tables, and its specification.
# In the paper, every token moves along the path of integrated gradients.
MEASURES = {
    "Grad (L2)": ("Grad", "l2", "gradient"),
    "Grad (L1)": ("Grad", "l1", "gradient(norm='l1')"),
    "x⊙grad (sign)": ("x*grad", "signed", "input_x_gradient"),
    "x⊙grad (abs)": ("x*grad", "absolute", "input_x_gradient(absolute=True)"),
    "IG (sign)": ("IG", "signed", "integrated_gradients(moves='all')"),
    "IG (abs)": ("IG", "absolute", "integrated_gradients(moves='all', absolute=True)"),
    "LOO (sign)": ("LOO", "signed", "leave_one_out"),
    "LOO (abs)": ("LOO", "absolute", "leave_one_out(absolute=True)"),
    "Beam": ("Beam", "-", "beam_search"),
    "Random": ("Random", "-", "random"),
}
SIGNED = ("x⊙grad (sign)", "IG (sign)", "LOO (sign)", "Beam")
RANDOM = "random"
ENDS = {"unmasked": 0, "all masked": -1}  # points of a curve
INTERVAL = "Intervals: 95 %, BCa over seeds, as in the paper."
Case = tuple[str, str, str, str]  # training, references, variant of the test, explainer
MARGIN = 0.1  # over the majority class: a model that is not better by this has learned nothing


def strategy(train: str, validate: str) -> str:
    """The recipe of a training and a validation strategy."""
    return "masked" if (train, validate) == ("50/50", "both") else f"masked(train={train!r}, validate={validate!r})"


@dataclass(frozen=True, eq=False)
class FmmExperiment(Experiment):
    """Models by recipe and seed, the inputs erased in the order of an explainer, and the checks of these inputs."""

    step: float
    _curves: dict[tuple[str, int], Floats] = field(default_factory=dict)

    @cached_property
    def metric(self) -> RecursiveErasure:
        """A metric with the data set's own performance measure."""
        return RecursiveErasure(step=self.step).settled([], self.data.splits["test"])

    @property
    def performance(self) -> Performance:
        return self.metric.performance or "accuracy"

    @property
    def ratios(self) -> list[float]:
        return [point / 10_000 for point in self.metric.points]

    @cached_property
    def majority(self) -> float:
        """The test score of always predicting the most frequent class of the training data."""
        labels = {
            split: torch.tensor([int(example.label) for example in self.data.splits[split]])  # type: ignore[arg-type]
            for split in ("train", "test")
        }
        score = majority(self.performance, labels["train"], labels["test"], len(self.data.labels))
        return 0.0 if np.isnan(score) else score  # Matthews correlation of a constant prediction

    @property
    def shares(self) -> list[str]:
        """The masking ratios as column names."""
        return [f"{ratio:.0%}" for ratio in self.ratios]

    # Cells

    def history(self, recipe: str, seed: int) -> Cell:
        """The course of a training, epoch by epoch."""
        model = self.train(recipe, seed)
        spec = HistorySpec(data=self.name, training=f"cell:{model.name}", performance=self.performance)
        return self.plan.add(spec.cell(model))

    def erased(self, recipe: str, explainer: str, seed: int, *, whole: bool = False) -> Cell:
        """recursive_erasure of an explainer, on the texts that are explained or on the whole test set."""
        split = "test" if whole else self.split_of(explainer)
        explanation = self.explain(self.train(recipe, seed), explainer, split=split, target="gold")
        return self.score(explanation, catalog.spec(self.metric))

    def check(self, recipe: str, explainer: str, seed: int) -> Cell:
        """The in-distribution p-values of the inputs that `erased` measured."""
        erased = self.erased(recipe, explainer, seed)
        data = [self.data_cell(split) for split in (self.split_of(explainer), "validation", "test")]
        return self.plan.add(ErasedCheckSpec.of(erased).cell(erased, *data, self.train(recipe, seed)))

    def summary(self, recipe: str, explainer: str, seeds: Sequence[int]) -> Cell:
        """ACU and RACU of an explainer over some seeds."""
        erased = [self.erased(recipe, explainer, seed) for seed in seeds]
        spec = SummarySpec(data=self.name, explainer=explainer, metric_full=erased[0].specs["metric_full"])
        return self.plan.add(spec.cell(*erased))

    def split_of(self, explainer: str) -> str:
        """The texts that an explainer explains; a search is slow, so it may have fewer."""
        splits = self.data.splits
        searches = bool(catalog.build("explainers", explainer).recursive)
        wanted = ("searched", "explained", "test") if searches else ("explained", "test")
        return next(split for split in wanted if split in splits)

    # Results

    def published_for(
        self, training: str, table: str, column: str = "value", explainer: str | None = None, **wanted: str
    ) -> float | None:
        """A number of the paper for a training; the paper reports only masked fine-tuning."""
        return printed(table, column, self.name, explainer, **wanted) if training == "masked" else None

    def curve(self, results: Results, recipe: str, seed: int) -> Floats:
        """[ratios] the test performance as more and more units are masked at random; NaN if that failed."""
        if (recipe, seed) not in self._curves:
            scores = results.scores(self.erased(recipe, RANDOM, seed, whole=True))
            self._curves[recipe, seed] = curves(scores, self.metric)[0]
        return self._curves[recipe, seed]

    def converged(self, results: Results, recipe: str) -> list[int]:
        """The seeds whose model has learned its task: at least ten points better than the majority class."""
        needed = self.majority + MARGIN
        return [seed for seed in self.seeds if self.curve(results, recipe, seed)[0] >= needed]

    def summarized(self, results: Results, recipe: str, explainer: str, seeds: Sequence[int]) -> dict[str, Any]:
        """The stored values of `summary`; NaN if there are none or they are undefined."""
        rows = results.rows(self.summary(recipe, explainer, seeds)) if seeds else []
        if not rows:
            return {**dict.fromkeys(("value", "low", "high"), np.nan), "acu": [np.nan] * 3, "count": 0, "undefined": ""}
        (row,) = rows
        extra = json.loads(row["extra"])
        acu = [extra["acu"], *extra["acu_interval"]] if "acu" in extra else [np.nan] * 3
        return {**{key: np.nan if value is None else value for key, value in row.items()}, "acu": acu}

    def p_values(
        self, results: Results, asked: Mapping[str, Sequence[str]]
    ) -> tuple[dict[Case, list[Floats]], dict[tuple[str, ...], float]]:
        """The p-values of every text at every ratio, one array per seed; and the smallest possible p-value of each
        test.
        """
        by_text: dict[Case, list[Floats]] = {}
        smallest: dict[tuple[str, ...], float] = {}
        for training, explainers in asked.items():
            for explainer, seed in itertools.product(explainers, self.seeds):
                by_test: dict[Case, list[list[float]]] = {}
                for row in results.rows(self.check(TRAININGS[training], explainer, seed)):
                    test = (training, row["references"], row["variant"])
                    by_test.setdefault((*test, explainer), []).append(row["p"])
                    smallest[test] = max(row["smallest"], smallest.get(test, 0.0))
                for key, values in by_test.items():
                    by_text.setdefault(key, []).append(np.array(values))
        return by_text, smallest

    def performed(self, results: Results, recipe: str) -> dict[str, Any]:
        """The performance on whole and on completely masked texts over seeds, the curve of each seed, and how many
        converged.
        """
        by_seed = [self.curve(results, recipe, seed) for seed in self.seeds]
        ends = {name: estimate([curve[place] for curve in by_seed]) for name, place in ENDS.items()}
        curves = [curve.tolist() for curve in by_seed]
        return {**ends, "by_seed": curves, "converged": len(self.converged(results, recipe))}


def measure_name(explainer: str) -> str:
    """The paper's name of an explainer; its own name if the paper does not have it."""
    full = full_spec(explainer)
    return next((name for name, (_, _, spec) in MEASURES.items() if full_spec(spec) == full), explainer)


def printed(table: str, column: str, data: str, explainer: str | None = None, **wanted: str) -> float | None:
    """A number of the paper for RoBERTa-base; None if it has none."""
    if explainer is not None:
        wanted["method"], wanted["variant"], _ = MEASURES.get(measure_name(explainer), ("", "", ""))
    return published.number(table, column, dataset=PRINTED.get(data, ""), model="base", **wanted)


def names(experiments: Sequence[FmmExperiment]) -> str:
    return ", ".join(experiment.name for experiment in experiments)


def curves(scores: Sequence[Score], metric: RecursiveErasure) -> tuple[Floats, Floats]:
    """[ratios] the performance when erased in the order of the explanation and at random; NaN if there are no
    scores.
    """
    records = [score.record for score in scores if not np.isnan(score.value)]
    if not records:
        return np.full(len(metric.points), np.nan), np.full(len(metric.points), np.nan)
    labels = np.array([record["label"] for record in records])
    predictions = np.array([[record["explained"], record["random"]] for record in records])
    counts = indicators(labels, predictions, int(max(labels.max(), predictions.max())) + 1).mean(0)
    explained, random = performance_of(metric.performance or "accuracy", counts)
    return explained, random


def areas(scores: Sequence[Score], metric: RecursiveErasure) -> tuple[float, float]:
    """ACU and RACU of one seed."""
    ratios = np.array(metric.points) / 10_000
    both = curves(scores, metric)
    return float(formulas.acu(ratios, *both)), float(formulas.racu(ratios, *both))
