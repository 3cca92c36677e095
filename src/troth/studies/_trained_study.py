"""A study that trains models on each of its data sets: a subclass names its cells and its tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from troth.store.cells import Plan
from troth.studies import Setting, Study
from troth.studies._trained import Material, Results, Trials, load, settings_like, without_trainings
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

    @property
    def changed(self) -> dict[str, Any]:
        """The settings that are named; those that are 0 change nothing."""
        return {"epochs": self.epochs, "batch_size": self.batch_size, "learning_rate": self.learning_rate}

    def materials(self, setting: Setting) -> list[Material]:
        """The data sets, each read once."""
        return [
            setting.context.once(
                ("material", self.paper, name, setting.limit, self.examples),
                partial(load, name, like=self.paper, limit=setting.limit, examples=self.examples),
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
        return without_trainings(plan)

    def train(self, part: str, setting: Setting, plan: Plan, experiments: Iterable[E]) -> tuple[Results, str]:
        """Does what a part needs; the results, and what failed."""
        for experiment in experiments:
            self.add_cells(part, experiment)
        results = Results(setting.carry_out(plan)[0])
        return results, results.troubles(plan)
