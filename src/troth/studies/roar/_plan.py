"""The plan of a retraining benchmark: trainings, importances of what they learned, and which data they are trained on.

A training is named by what it is (base, settings, data, seed, what was erased by whom), not by the cell that did it: a
cell may do many side by side, and a training that any cell of the run has done is never done again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from troth.core import catalog
from troth.explainers import Explainer
from troth.explainers.random import Random
from troth.store.cells import Cell, Plan
from troth.store.specs import DataSpec, Spec
from troth.store.tables import examples_to_table
from troth.studies.roar._steps import ALL, Counted, Steps
from troth.studies.roar._subject import Subject

Way = Literal["once", "recursive"]

PROBES = {"training": "troth.studies.roar._probes:train", "importance": "troth.studies.roar._probes:explain"}


@dataclass(frozen=True, kw_only=True)
class RetrainingSpec(Spec):
    """What every cell of a benchmark has in common."""

    base: str
    settings: Mapping[str, Any]
    labels: Sequence[str]
    max_length: int | None
    masking: str
    fingerprints: Mapping[str, str]
    absolute: bool
    data: str
    examples: int


@dataclass(frozen=True, kw_only=True)
class TrainingsSpec(RetrainingSpec):
    """Trainings side by side."""

    kind = "training"
    work = "troth.studies.roar._works:train"

    recipe: str
    model: str
    copies: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class ImportanceSpec(RetrainingSpec):
    """How important every token is to a model; random importances have no `model`."""

    kind = "importance"
    work = "troth.studies.roar._works:explain"

    explainer: str
    explainer_full: str
    seed: int
    model: str | None = None
    counted: Counted | None = None  # how `erased` is counted
    erased: int | None = None  # before this


@dataclass(frozen=True)
class Training:
    """One training: the seed, and what was erased: `trail` has the total amounts, explained again before each."""

    seed: int
    by: str = ""  # the explainer with every option; none chooses at 0 and 100 %
    trail: tuple[int, ...] = ()
    counted: Counted = "share"

    def name(self, common: Mapping[str, Any]) -> str:
        """Of its folder in the run: the same whatever else is trained in its cell."""
        return Cell("model", {**common, **self.specs()}).name

    def specs(self) -> dict[str, Any]:
        return {**asdict(self), "trail": list(self.trail)}


class Planner:
    """Adds the cells of one or both benchmarks to one plan; what they share is added once."""

    def __init__(
        self, subject: Subject, steps: Steps, seeds: Sequence[int], *, absolute: bool = True, most: int | None = None
    ) -> None:
        self.subject, self.steps, self.seeds, self.absolute = subject, steps, tuple(seeds), absolute
        self.most = most or subject.side_by_side(len(self.seeds))
        # Whether scores are taken as magnitudes decides what is erased.
        self.common = {**subject.specs, "absolute": absolute}
        labeled = subject.labeled
        about = {"data": {labeled.name: {name: len(data) for name, data in subject.sets.items()}}}
        self.plan = Plan(about={**about, "seeds": list(self.seeds)}, probes=PROBES)
        self.data = tuple(
            self.plan.add(
                DataSpec(data=data.name, split=name, data_fingerprint=data.fingerprint).cell(),
                examples_to_table(data),
            ).name
            for name, data in subject.sets.items()
        )
        self.trained_in: dict[Training, Cell] = {}
        self.importances: dict[Training, dict[str, Cell]] = {}  # of each training's model, by explainer

    def add(self, explainers: Iterable[Explainer], ways: Sequence[Way]) -> Plan:
        """Everything that the curves of these explainers need."""
        methods = {catalog.spec(explainer, full=True): explainer for explainer in explainers}
        self._train([(Training(seed), None, True) for seed in self.seeds])
        for seed in self.seeds:
            self._remember(Random(), Training(seed), self._importance(Random(), seed, (), {}))
            for method in methods.values():
                self._explain(method, Training(seed))
        if ways:
            self._random()
        if "recursive" in ways:
            self._recursively(methods)
        if "once" in ways:
            for name in methods:
                pairs = [(seed, amount) for amount in self.steps.inner for seed in self.seeds]
                at_once = [self.training(name, "once", seed, amount) for seed, amount in pairs]
                self._train([(one, self.importances[Training(one.seed)][name], False) for one in at_once])
        self.plan.about["trainings"] = len(self.trained_in)
        return self.plan

    def training(self, by: str, way: Way, seed: int, amount: int) -> Training:
        """The training behind a point of a curve."""
        counted = self.steps.counted
        if amount == 0:
            return Training(seed)
        if (counted, amount) == ("share", ALL):
            return Training(seed, trail=(ALL,))
        trail = self.steps.amounts[: self.steps.amounts.index(amount) + 1] if way == "recursive" else (amount,)
        return Training(seed, by, trail, counted)

    def _random(self) -> None:
        by = catalog.spec(Random(), full=True)
        wanted: list[tuple[Training, Cell | None, bool]] = []
        for seed in self.seeds:
            cell = self.importances[Training(seed)][by]
            wanted += [(self.training(by, "once", seed, amount), cell, False) for amount in self.steps.inner]
            if self.steps.counted == "share":
                wanted.append((self.training(by, "once", seed, ALL), None, False))
        self._train(wanted)

    def _recursively(self, methods: Mapping[str, Explainer]) -> None:
        # The models of all measures at one step side by side: they are ready at the same time.
        last = self.steps.inner[-1] if self.steps.inner else 0
        for amount in self.steps.inner:
            pairs = [(name, seed) for name in methods for seed in self.seeds]
            trainings = [self.training(name, "recursive", seed, amount) for name, seed in pairs]
            self._train([(one, self.importances[self._before(one)][one.by], amount != last) for one in trainings])
            if amount != last:
                for training in trainings:
                    self._explain(methods[training.by], training)

    def _before(self, training: Training) -> Training:
        """The training whose model decides what is erased next."""
        if len(training.trail) == 1:
            return Training(training.seed)
        return Training(training.seed, training.by, training.trail[:-1], training.counted)

    def _train(self, wanted: Sequence[tuple[Training, Cell | None, bool]]) -> None:
        """Cells for what no cell trains yet, `most` in each at most: (training, importance, is explained)."""
        new = [job for job in wanted if job[0] not in self.trained_in]
        parts = math.ceil(len(new) / self.most)
        for numbers in np.array_split(np.arange(len(new)), parts) if parts else ():
            group = [new[number] for number in numbers]
            sources = list(dict.fromkeys(cell.name for _, cell, _ in group if cell is not None))
            copies = [
                {
                    **training.specs(),
                    "importance": -1 if cell is None else sources.index(cell.name),
                    "keep_model": goes_on or self._may_go_on(training),
                }
                for training, cell, goes_on in group
            ]
            spec = TrainingsSpec(
                **self.common, recipe="plain", model=catalog.spec(self.subject.base), data=self.subject.labeled.name,
                copies=copies, examples=len(group) * len(self.subject.labeled.training),
            )  # fmt: skip
            cell = self.plan.add(spec.cell(*self.data, *sources))
            for training, _, _ in group:
                self.trained_in[training] = cell

    def _may_go_on(self, training: Training) -> bool:
        """The first step of both benchmarks is one training, and only the recursive one explains its model."""
        return training.by != catalog.spec(Random(), full=True) and training.trail == self.steps.inner[:1]

    def _explain(self, method: Explainer, training: Training) -> None:
        earlier = self.importances[self._before(training)][training.by] if training.trail else None
        specs: dict[str, Any] = {"model": f"cell:{training.name(self.common)}"}
        if earlier is not None:
            specs |= {"counted": training.counted, "erased": training.trail[-1]}
        parents = (self.trained_in[training].name, *(() if earlier is None else (earlier.name,)))
        self._remember(method, training, self._importance(method, training.seed, parents, specs))

    def _remember(self, method: Explainer, training: Training, cell: Cell) -> None:
        self.importances.setdefault(training, {})[catalog.spec(method, full=True)] = cell

    def _importance(self, method: Explainer, seed: int, parents: tuple[str, ...], specs: Mapping[str, Any]) -> Cell:
        """Of every token of every split; the parents have the model, and what has been erased before."""
        spec = ImportanceSpec(
            **self.common, **specs, explainer=catalog.spec(method), explainer_full=catalog.spec(method, full=True),
            data=self.subject.labeled.name, seed=seed, examples=sum(map(len, self.subject.sets.values())),
        )  # fmt: skip
        return self.plan.add(spec.cell(*self.data, *parents))
