"""The frame of studies that train models: their data, the plan of their cells, and the order of their parts.

A study defines an experiment per data set, the cells of each part, and its tables. Every training, explanation and
score is a stored cell, so a study resumes where it stopped.
"""

import dataclasses
import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import pyarrow as pa

from troth.core import catalog
from troth.core.units import UnitName, word_spans
from troth.data import Data
from troth.store.cells import Cell, Plan
from troth.store.specs import DataSpec, ExplanationSpec, MetricSpec, ModelSpec, SourceSpec
from troth.store.tables import examples_to_table
from troth.studies import Section, Setting, Study, published
from troth.studies._results import Results
from troth.studies._training import SPLITS, FreshSpec, TrainingSpec
from troth.training import bases, presets, recipes
from troth.training import settings as every_setting
from troth.training.examples import Source, entry_of, load_three_splits


@dataclass(frozen=True, eq=False)
class StudyData:
    """A data set in three splits, whose labels are class indices."""

    name: str
    labels: tuple[str, ...]
    splits: Mapping[str, Data]

    @property
    def sizes(self) -> list[float]:
        """The number of examples per split, and the mean number of words of the first 2,000 training texts."""
        lengths = [len(word_spans(example.text)) for example in self.splits["train"][:2000]]
        return [*(len(self.splits[split]) for split in SPLITS), float(np.mean(lengths))]

    @cached_property
    def cells(self) -> dict[str, tuple[Cell, pa.Table]]:
        """The cell of each split with its rows."""
        return {
            split: (DataSpec(data=data.name, split=split, examples=len(data), data_fingerprint=data.fingerprint,
                             labels=data.labels).cell(), examples_to_table(data))
            for split, data in self.splits.items()
        }  # fmt: skip


def load(source: Source, *, like: str | None = None, limit: int | None = None, examples: int = 0) -> StudyData:
    """Train, validation and test as in a paper, or else as published; missing splits are held out of train.

    `examples` is the number of test examples, 0 = all.
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
    return StudyData(name, labeled.labels, splits)


@dataclass(frozen=True, eq=False)
class Experiment:
    """One data set of a study: plans the models trained on it, one per seed, and what is computed with them."""

    names_in_paper: ClassVar[Mapping[str, str]] = {}  # names of data sets as the paper's tables print them

    data: StudyData
    base: str
    plan: Plan
    seeds: Sequence[int]
    changed: Mapping[str, Any]  # settings that differ from the default; 0 and "" change nothing
    paper: str | None  # the paper whose settings are the default; None: the base's own

    @property
    def name(self) -> str:
        return self.data.name

    @property
    def printed(self) -> str:
        """The data set's name in the paper; "" if it has none."""
        return self.names_in_paper.get(self.name, "")

    def published(self, table: str, column: str = "value", /, **wanted: str) -> float | None:
        """A number that the paper printed for this data set; None if it has none."""
        return published.number(table, column, dataset=self.printed, **wanted)

    def data_cell(self, split: str) -> Cell:
        """The examples of a split."""
        return self.plan.add(*self.data.cells[split])

    def settled(self, recipe: recipes.RecipeLike) -> tuple[str, dict[str, Any]]:
        """A recipe with its λ, and the settings: the base's, overridden by the paper's, overridden by the changed
        ones.
        """
        start = bases.build(self.base)
        method = presets.recipe_like(self.paper, recipes.build(recipe), self.name)
        user = {name: value for name, value in self.changed.items() if value}
        without = ("head_learning_rate",) if "learning_rate" in user else ()
        pair = self.data.splits["train"][0].text_pair is not None
        settings = presets.resolve(user, self.paper, method, start, self.name, pair=pair, without=without)
        fields = {field.name for field in dataclasses.fields(every_setting.Settings)}
        # Refuses a wrong value before any work is done.
        every_setting.settings(**{name: value for name, value in settings.items() if name in fields})
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
        return recipes.spec(method, full=True), plain

    def train(self, recipe: recipes.RecipeLike, seed: int) -> Cell:
        """The cell of a training: a model folder, and the model's predictions on validation and test."""
        method, settings = self.settled(recipe)
        spec = TrainingSpec(
            data=self.name, labels=self.data.labels, recipe=method, base=self.base, settings=settings, seed=seed
        )
        return self.plan.add(spec.cell(*map(self.data_cell, self.data.splits)))

    def train_on_rationales(
        self, support: Cell | ModelSpec, explainer: str, ratio: float, thresholder: str, seed: int
    ) -> Cell:
        """The cell of a classifier of rationales alone, with its predictions on those of validation and test.

        The support model is a training, or an existing model (Context.model_spec).
        """
        model = ModelSpec(model=f"cell:{support.name}") if isinstance(support, Cell) else support
        spec = FreshSpec(
            **vars(model), data=self.name, labels=self.data.labels, base=self.base, settings=self.settled("plain")[1],
            seed=seed, explainer_full=full_spec(explainer), ratio=ratio, thresholder=thresholder,
        )  # fmt: skip
        parents = [*map(self.data_cell, self.data.splits), *([support] if isinstance(support, Cell) else [])]
        return self.plan.add(spec.cell(*parents))

    def explain(
        self, model: Cell, explainer: str, *, units: UnitName = "token", split: str = "test", target: str = "predicted",
        magnitude: bool = False, over_sum: bool = False,
    ) -> Cell:  # fmt: skip
        """The cell of attributions for the predicted or the gold class; `over_sum` divides them by their signed sum."""
        data = self.data_cell(split)
        spec = ExplanationSpec(
            **vars(SourceSpec.of(data)), model=f"cell:{model.name}", units=units, target=target, against=None,
            segments="first", masking=full_spec("mask_token", "maskings"), explainer=explainer,
            explainer_full=full_spec(explainer), magnitude=magnitude, seed=model.specs["seed"], over_sum=over_sum,
        )  # fmt: skip
        return self.plan.add(spec.cell(data, model))

    def score(self, explanation: Cell, metric: str) -> Cell:
        """The cell of an explanation's scores."""
        spec = MetricSpec(**explanation.specs, metric=metric, metric_full=full_spec(metric, "metrics"))
        return self.plan.add(spec.cell(explanation, explanation.parents[0]))


def full_spec(spec: str, kind: str = "explainers") -> str:
    """The specification of a method with every option, on which the result depends."""
    return catalog.spec(catalog.build(kind, spec), full=True)


E = TypeVar("E")


class PlannedStudy(Study, Generic[E]):
    """Plans, carries out and reads a part; a subclass defines its experiments, their cells and their tables."""

    probes: ClassVar[Mapping[str, str]] = {}  # by kind of cell, the function that estimates its time (see `Plan`)

    @abstractmethod
    def experiments(self, setting: Setting, plan: Plan, part: str = "") -> list[E]:
        """One experiment per data set."""

    @abstractmethod
    def add_cells(self, part: str, experiment: E) -> None:
        """Adds every cell that a part needs for one data set."""

    @abstractmethod
    def tables(self, part: str, experiments: Sequence[E], results: Results) -> Iterable[Section]:
        """The results of a part."""

    def chosen(self, experiments: list[E], plan: Plan, setting: Setting) -> list[E]:
        """The experiments after the results that planning depends on are known; by default there are none."""
        return experiments

    def add_later(self, part: str, experiment: E, results: Results) -> None:
        """Adds cells that depend on the results of those of `add_cells`."""

    def plan(self, part: str, setting: Setting) -> Plan | None:
        plan = Plan(probes=self.probes)
        for experiment in self.experiments(setting, plan, part):
            self.add_cells(part, experiment)
        return plan

    def sections(self, part: str, setting: Setting) -> Iterator[Section]:
        plan = Plan(probes=self.probes)
        experiments = self.chosen(self.experiments(setting, plan, part), plan, setting)
        for experiment in experiments:
            self.add_cells(part, experiment)
        results, planned = Results(setting.carry_out(plan)[0]), len(plan.cells)
        for experiment in experiments:
            self.add_later(part, experiment, results)
        if len(plan.cells) > planned:
            results = Results(setting.carry_out(plan)[0])
        troubles = results.troubles(plan)
        for section in self.tables(part, experiments, results):
            yield replace(section, words=" ".join(filter(None, [section.words, troubles])))


class TrainedStudy(PlannedStudy[E]):
    """A study of models that are trained on each data set; a subclass is a dataclass with the four options."""

    paper: ClassVar[str | None] = None  # the paper whose splits and settings are used
    default_data: ClassVar[tuple[str, ...]] = ("sst",)
    probes: ClassVar[Mapping[str, str]] = {"training": "", "fresh": ""}

    epochs: int  # 0: the paper's, as for the next two
    batch_size: int
    learning_rate: float
    examples: int  # test examples; 0: all

    @abstractmethod
    def experiment(self, data: StudyData, plan: Plan, setting: Setting) -> E:
        """The experiment on one data set."""

    def load(self, name: str, limit: int | None) -> StudyData:
        """Loads a data set in the splits of the paper."""
        return load(name, like=self.paper, limit=limit, examples=self.examples)

    @property
    def changed(self) -> dict[str, Any]:
        """The settings that are given; those that are 0 change nothing."""
        return {"epochs": self.epochs, "batch_size": self.batch_size, "learning_rate": self.learning_rate}

    def data_sets(self, setting: Setting) -> list[StudyData]:
        """The data sets, each read once."""
        return [
            setting.context.once(
                ("study data", self.paper, name, setting.limit, self.examples), partial(self.load, name, setting.limit)
            )
            for name in setting.data or self.default_data
        ]

    def experiments(self, setting: Setting, plan: Plan, part: str = "") -> list[E]:
        return [self.experiment(data, plan, setting) for data in self.data_sets(setting)]
