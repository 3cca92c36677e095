"""A data set with one planted shortcut: the models trained on it, what is computed with them, and the rows of
results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from troth import statistics
from troth.core import catalog
from troth.data import Data
from troth.metrics import Erasing, Metric
from troth.models import short_name
from troth.statistics import Floats
from troth.store.cells import Cell
from troth.store.specs import DataSpec, SourceSpec
from troth.store.tables import examples_to_table, table_to_p_values
from troth.studies._results import Results
from troth.studies._trained_study import Experiment, StudyData, full_spec
from troth.studies.truth._agreement import agreement, won
from troth.studies.truth._explanations import MIXED, NOTHING, TRUTH
from troth.studies.truth._shortcuts import Planter, plant, words_for
from troth.studies.truth._works import GradedSpec, PlantedSpec, StampSpec, UseSpec
from troth.validity.stamp import stamps

CHANGES = ("planted", "swapped", "redrawn", "without")
PLACES = ("average_precision", "precision", "rank", "mass")
RANDOM = "random"
MODEL = ""  # stands for the model as a whole in the example column
Row = tuple[str, str, str, float]  # subject, quantity, example, value


@dataclass(frozen=True, eq=False)
class TruthExperiment(Experiment):
    """The models of one data set and shortcut, by recipe and seed."""

    source: str  # the data set without the shortcut
    shortcut: str
    changed_texts: Data
    explainers: tuple[str, ...]
    metrics: tuple[str, ...]
    recipes: tuple[str, ...]
    least: float

    def uses(self, recipe: str, seed: int) -> Cell:
        """The model's answers after the planted words were changed."""
        model = self.train(recipe, seed)
        return self.plan.add(UseSpec(model=f"cell:{model.name}", seed=seed).cell(self._changed_cell, model))

    def explained(self, recipe: str, seed: int) -> Cell:
        """All explanations of a model."""
        model = self.train(recipe, seed)
        spec = PlantedSpec(model=f"cell:{model.name}", explainers=self._explainers, seed=seed)
        return self.plan.add(spec.cell(self.data_cell("test"), model))

    def graded(self, recipe: str, seed: int, metric: str) -> Cell:
        """A metric's scores of all explanations of a model."""
        model = self.train(recipe, seed)
        spec = GradedSpec(
            model=f"cell:{model.name}", explainers=self._explainers, metric=metric,
            metric_full=full_spec(metric, "metrics"), seed=seed,
        )  # fmt: skip
        return self.plan.add(spec.cell(self.data_cell("test"), self.explained(recipe, seed), model))

    def stamped(self, recipe: str, seed: int, masking: str) -> Cell:
        """Tests whether randomly masked texts are in distribution for a model."""
        model, tested = self.train(recipe, seed), self.data_cell("test")
        spec = StampSpec(
            **vars(SourceSpec.of(tested)), model=f"cell:{model.name}", units="word", masking=masking, step=0.1,
            seed=seed, references="as_trained",
        )  # fmt: skip
        return self.plan.add(spec.cell(tested, self.data_cell("validation"), model))

    @cached_property
    def judges(self) -> dict[str, Metric]:
        """The metrics by name."""
        return {metric: catalog.build("metrics", metric) for metric in self.metrics}

    @cached_property
    def maskings(self) -> tuple[str, ...]:
        """The maskings of the metrics that MaSF can test."""
        used = [judge.perturbation for judge in self.judges.values() if isinstance(judge, Erasing)]
        return tuple(dict.fromkeys(catalog.spec(masking) for masking in used if masking.tested_by_masf))

    @property
    def _explainers(self) -> list[str]:
        return [full_spec(explainer) for explainer in self.explainers]

    @cached_property
    def _changed_cell(self) -> Cell:
        data = self.changed_texts
        spec = DataSpec(data=data.name, split=data.split, examples=len(data), data_fingerprint=data.fingerprint,
                        labels=data.labels)  # fmt: skip
        return self.plan.add(spec.cell(), examples_to_table(data))

    # Rows

    def is_kept(self, results: Results, recipe: str, seed: int) -> bool:
        """Whether a model provably uses the shortcut: it follows the deciding words and nothing else."""
        right = _right(results.rows(self.uses(recipe, seed)))
        return bool(right) and all(np.mean(right[change]) >= self.least for change in CHANGES[:3] if change in right)

    def rows(self, results: Results) -> Iterator[dict[str, Any]]:
        """All quantities of the models, one row each."""
        about = {"data": self.source, "base": short_name(self.base), "shortcut": self.shortcut}
        for recipe in self.recipes:
            for seed in self.seeds:
                for row in self._of_model(results, recipe, seed):
                    names = ("about", "quantity", "example_id", "value")
                    yield {**about, "recipe": recipe, "seed": seed, **dict(zip(names, row, strict=True))}

    def _of_model(self, results: Results, recipe: str, seed: int) -> Iterator[Row]:
        right = _right(results.rows(self.uses(recipe, seed)))
        if not right:
            return  # its training failed, which is reported separately
        for change, each in right.items():
            yield "", change, MODEL, float(np.mean(each))
        kept = self.is_kept(results, recipe, seed)
        yield "", "kept", MODEL, float(kept)
        explained = results.rows(self.explained(recipe, seed)) if kept else []
        texts = list(dict.fromkeys(row["example_id"] for row in explained if row["example_id"] is not None))
        quality = _matrix(explained, texts, "average_precision")
        names = [name for name in quality if name not in MIXED and name not in NOTHING]
        short = dict(zip(self._explainers, self.explainers, strict=True))
        for row in explained:
            if row["explanation"] in names:
                yield from ((short[row["explanation"]], place, row["example_id"], row[place]) for place in PLACES)
        stamped = self._stamps(results, recipe, seed) if kept else {}
        for metric, judge in self.judges.items():
            if kept and (scores := results.rows(self.graded(recipe, seed, metric))):
                sign = 1.0 if judge.higher_is_better else -1.0
                values = {name: sign * each for name, each in _matrix(scores, texts, "value").items()}
                for quantity, of_texts in _compared(values, quality, names).items():
                    pairs = zip(texts, of_texts.tolist(), strict=True)
                    yield from ((metric, quantity, text, value) for text, value in pairs)
                yield from ((metric, quantity, MODEL, value) for quantity, value in _of_means(values, quality, names))
                if metric in stamped:
                    yield metric, "stamp", MODEL, stamped[metric]

    def _stamps(self, results: Results, recipe: str, seed: int) -> dict[str, float]:
        """The p-value of each metric whose erased texts were tested."""
        found = {}
        for masking in self.maskings:
            table = results.table(self.stamped(recipe, seed, masking))
            by_ratio = table_to_p_values(table)[0] if table is not None else {}
            of = {name: judge for name, judge in self.judges.items()
                  if isinstance(judge, Erasing) and catalog.spec(judge.perturbation) == masking}  # fmt: skip
            tested = catalog.name_of(catalog.build("maskings", masking))
            for name, stamp in stamps(of, by_ratio, "not tested", tested=tested).items():
                if stamp.p is not None:
                    found[name] = stamp.p
        return found


def plant_in(
    data: StudyData, name: str, *, training: int, validation: int, examples: int, longest: int, incomplete: float
) -> tuple[StudyData, Data]:
    """A data set with a shortcut, and its test texts with the planted words changed."""
    sizes = {"train": training, "validation": validation, "test": examples}
    # Reads no more texts than are needed, with a margin for those that are too short.
    splits = {split: part[: 6 * sizes[split]] for split, part in data.splits.items()}
    planter = Planter(name, words_for(example.text for part in splits.values() for example in part), longest=longest)
    planted = plant(f"{data.name} {name}", splits, planter, sizes, incomplete)
    tested = planter.usable(splits["test"])[: len(planted["test"])]
    changed = [replace(example, id=f"{example.id} {change}") for change, example in planter.changed(tested)]
    texts = planted["test"]
    return StudyData(texts.name, texts.labels, planted), Data(texts.name, changed, texts.labels, (), "changed")


def _right(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[bool]]:
    """For each change, the texts on which the model follows the shortcut."""
    found: dict[str, list[bool]] = {}
    for row in rows:
        found.setdefault(row["change"], []).append(row["expected"] == row["predicted"])
    return found


def _matrix(rows: Sequence[Mapping[str, Any]], texts: Sequence[str], column: str) -> dict[str, Floats]:
    """[texts] the values of each explanation, NaN where one is missing."""
    places = {text: place for place, text in enumerate(texts)}
    found: dict[str, Floats] = {}
    for row in rows:
        if row["example_id"] in places and row[column] is not None:
            of_texts = found.setdefault(row["explanation"], np.full(len(texts), np.nan))
            of_texts[places[row["example_id"]]] = row[column]
    return found


def _compared(values: Mapping[str, Floats], quality: Mapping[str, Floats], names: Sequence[str]) -> dict[str, Floats]:
    """[texts] each: the agreement of a metric (higher is better) with the truth."""

    def stacked(of: Mapping[str, Floats], some: Sequence[str]) -> Floats:
        missing = np.full(len(next(iter(quality.values()))), np.nan)
        return np.stack([of.get(name, missing) for name in some], axis=1)

    mixed, explained = (agreement(stacked(values, list(some)), stacked(quality, list(some))) for some in (MIXED, names))
    meaningless = np.broadcast_to(-np.arange(len(NOTHING), dtype=np.float64), (len(mixed.tau), len(NOTHING)))
    others = [name for name in quality if name != TRUTH]
    worse = np.stack([quality[name] < quality[TRUTH] for name in others], axis=1)
    wins = np.where(
        worse, won(values.get(TRUTH, np.full(len(worse), np.nan))[:, None], stacked(values, others)), np.nan
    )
    found = {
        "tau_mixed": mixed.tau, "ordered_mixed": mixed.ordered,
        "tau_explainers": explained.tau, "ordered_explainers": explained.ordered,
        "tau_noise": agreement(stacked(values, list(NOTHING)), meaningless).tau,
        "truth_wins": _mean(wins), "undefined": np.isnan(stacked(values, list(quality))).mean(1),
    }  # fmt: skip
    real = [name for name in names if name != RANDOM]
    if RANDOM in values and real:
        found["diagnosticity"] = _mean(won(stacked(values, real), values[RANDOM][:, None]))
    return found


def _of_means(
    values: Mapping[str, Floats], quality: Mapping[str, Floats], names: Sequence[str]
) -> Iterator[tuple[str, float]]:
    """Results from the means over texts: how the explainers are ranked, and whether the truth comes first."""
    means = {name: statistics.mean(each) for name, each in values.items()}
    of_truth = {name: statistics.mean(each) for name, each in quality.items()}
    yield (
        "tau_means",
        statistics.kendall_tau([means.get(name, np.nan) for name in names], [of_truth[name] for name in names]),
    )
    known = [means[name] for name in (*MIXED, *NOTHING) if name in means and not np.isnan(means[name])]
    if TRUTH in means and known:
        yield "truth_first", float(means[TRUTH] >= max(known) - 1e-5)


def _mean(values: Floats) -> Floats:
    """[texts] the mean over the defined values of [texts, explanations]; NaN if there are none."""
    counts = (~np.isnan(values)).sum(1)
    return np.where(counts == 0, np.nan, np.nansum(values, 1) / np.maximum(counts, 1))
