"""A study that trains models on each of its data sets: a subclass names its cells and its tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from troth.store.cells import Plan
from troth.studies import Section, Setting, Study
from troth.studies._material import Material, load, settings_like
from troth.studies._results import Results
from troth.studies._trained import Trials
from troth.training.recipes import RecipeLike


@dataclass(frozen=True, eq=False)
class Experiment:
    """One data set of a study: the models trained on it, one per seed, and what is asked of them."""

    paper: ClassVar[str | None] = None  # whose settings are the default; None: the base's own

    trials: Trials
    seeds: Sequence[int]
    changed: Mapping[str, Any]  # settings that are not the default

    @property
    def material(self) -> Material:
        return self.trials.material

    @property
    def name(self) -> str:
        return self.material.name

    def settled(self, recipe: RecipeLike) -> tuple[str, dict[str, Any]]:
        """A recipe and its settings, as a training needs them."""
        return settings_like(self.paper, recipe, self.trials.base, self.material, **self.changed)


E = TypeVar("E", bound=Experiment)


class TrainedStudy(Study, Generic[E]):
    """Plans, trains and reads; a subclass is a dataclass that has the four options as fields."""

    paper: ClassVar[str | None] = None  # whose splits are taken
    default_data: ClassVar[tuple[str, ...]] = ("sst",)
    not_tried: ClassVar[tuple[str, ...]] = ("training", "fresh")  # kinds of cells that an estimate does not try out

    epochs: int  # 0: the paper's, as for the next two
    batch_size: int
    learning_rate: float
    examples: int  # of the test set; 0: all

    @abstractmethod
    def experiment(self, material: Material, plan: Plan, setting: Setting) -> E:
        """What is done with one data set."""

    @abstractmethod
    def add_cells(self, part: str, experiment: E) -> None:
        """Adds every cell that a part needs of one data set."""

    @abstractmethod
    def tables(self, part: str, experiments: Sequence[E], results: Results) -> Iterable[Section]:
        """The results of a part."""

    def chosen(self, experiments: list[E], plan: Plan, setting: Setting) -> list[E]:
        """The experiments with what has to be found out before anything is planned; by default nothing has."""
        return experiments

    def add_later(self, part: str, experiment: E, results: Results) -> None:
        """Adds cells that only the results of `add_cells` decide."""

    def material(self, name: str, limit: int | None) -> Material:
        """A data set in the splits of the paper."""
        return load(name, like=self.paper, limit=limit, examples=self.examples)

    @property
    def changed(self) -> dict[str, Any]:
        """The settings that are named; those that are 0 change nothing."""
        return {"epochs": self.epochs, "batch_size": self.batch_size, "learning_rate": self.learning_rate}

    def materials(self, setting: Setting) -> list[Material]:
        """The data sets, each read once."""
        return [
            setting.context.once(
                ("material", self.paper, name, setting.limit, self.examples),
                partial(self.material, name, setting.limit),
            )
            for name in setting.data or self.default_data
        ]

    def experiments(self, setting: Setting, plan: Plan) -> list[E]:
        """One per data set."""
        return [self.experiment(material, plan, setting) for material in self.materials(setting)]

    def plan(self, part: str, setting: Setting) -> Plan | None:
        plan = Plan()
        for experiment in self.experiments(setting, plan):
            self.add_cells(part, experiment)
        return replace(plan, probes=dict.fromkeys(self.not_tried, ""))

    def sections(self, part: str, setting: Setting) -> Iterator[Section]:
        plan = Plan()
        experiments = self.chosen(self.experiments(setting, plan), plan, setting)
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
