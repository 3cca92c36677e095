"""The plan of a retraining benchmark: what is trained, how much is erased at each step, trainings and importances."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Example, Question
from troth.data import Data
from troth.engine.prober import Prober
from troth.explainers import Explainer
from troth.explainers.random import Random
from troth.maskings import Masking
from troth.metrics._erasing import basis_points
from troth.models.encoder import Encoder
from troth.store.cells import Cell, Plan
from troth.store.specs import DataSpec
from troth.store.tables import examples_to_table
from troth.studies._copies import ALL, Counted, Training
from troth.studies._training import SPLITS, TrainingSpec
from troth.studies.roar._importance import PROBES, ImportanceSpec
from troth.training import bases, presets
from troth.training import settings as every_setting
from troth.training.bases import Base
from troth.training.bases.scratch import Scratch
from troth.training.examples import Labeled, Source, load_three_splits
from troth.training.recipes.plain import Plain
from troth.training.settings import Metric, Settings
from troth.training.stacks import why_not

Way = Literal["once", "recursive"]
Step = float | Literal["one"]
MOST = 10  # tokens, if one is erased per step
_RANDOM = catalog.spec(Random(), full=True)
_SMALL = 20_000_000  # parameters up to which training side by side is worthwhile
_SIDE_BY_SIDE = 64  # such models per cell on a GPU, which would be idle with fewer


@dataclass(frozen=True, eq=False)
class BenchmarkSetup:
    """Everything that the trainings have in common."""

    labeled: Labeled
    base: Base
    settings: Settings
    max_length: int | None
    masking: Masking
    score: Metric
    methods: Sequence[Explainer]  # without `random`, which is always included

    @property
    def name(self) -> str:
        return self.labeled.name

    @property
    def sets(self) -> dict[str, Data]:
        """The examples by split."""
        parts = (self.labeled.training, self.labeled.validation, self.labeled.others["test"])
        return dict(zip(SPLITS, parts, strict=True))

    @cached_property
    def model(self) -> Encoder:
        """The untrained model for seed 0."""
        return self.base.build(self.labeled.training.examples, self.labeled.labels, 0, self.max_length)

    def side_by_side(self, seeds: int) -> int:
        """The number of trainings per cell: small models fill a GPU together; on a CPU, a cell does the seeds of a
        measure.
        """
        small = sum(parameter.numel() for parameter in self.model.model.parameters()) <= _SMALL
        if self.why_alone is not None or not small:
            return 1
        return _SIDE_BY_SIDE if torch.cuda.is_available() else seeds

    @property
    def why_alone(self) -> str | None:
        """The reason why its trainings cannot share a cell; None if they can."""
        if self.masking.level != "ids":
            name = catalog.name_of(self.masking)
            return f"copies side by side can only have tokens replaced or deleted (mask_token, pad, delete), not {name}"
        return why_not(self.model)

    @cached_property
    def specs(self) -> dict[str, Any]:
        """The fields of every cell, on which every result depends."""
        settings = {name: value for name, value in every_setting.as_dict(self.settings).items() if name != "seed"}
        return {
            "base": catalog.spec(self.base, full=True), "settings": settings, "labels": list(self.labeled.labels),
            "max_length": self.max_length, "masking": catalog.spec(self.masking, full=True),
            "fingerprints": {name: data.fingerprint for name, data in self.sets.items()},
        }  # fmt: skip


def settle(
    data: Source | Labeled,
    base: Any,
    explainers: Sequence[str | Explainer],
    *,
    stack: int | None = None,
    masking: str | Masking = "mask_token",
    limit: int | None = None,
    max_length: int | None = None,
    score: Metric | None = None,
    **settings: Any,
) -> BenchmarkSetup:
    """Validates the settings of a benchmark; what cannot be trained, explained or scored is refused before any work is
    done.

    `score` is the performance measure: by default macro-F1 for single texts, accuracy (micro-F1) for pairs.
    """
    if stack is not None and stack < 1:
        raise TrothError(f"stack must be 1 training or more, not {stack}")
    built: list[Explainer] = [catalog.build("explainers", explainer) for explainer in explainers]
    methods = [method for method in dict.fromkeys(built) if not isinstance(method, Random)]
    if not isinstance(base, str | Base):
        raise TrothError(
            f"a {type(base).__name__} cannot be trained: a benchmark that retrains needs a base such as "
            "bilstm_attention, scratch, a hub name or a model folder, not a loaded model or a black box"
        )
    start = bases.build(base)
    if isinstance(data, Labeled):
        labeled = data
    else:
        labeled = load_three_splits(data, hold_out=presets.held_out("roar", data), limit=limit)
    pair = labeled.training[0].text_pair is not None
    # The paper fine-tunes or trains a BiLSTM, nothing else.
    paper = None if isinstance(start, Scratch) else "roar"
    resolved = presets.resolve(settings, paper, Plain(), start, labeled.name, pair=pair)
    chosen = every_setting.settings(**{"metric": "accuracy", **resolved})
    metric: Metric = score or ("accuracy" if pair else "macro_f1")
    subject = BenchmarkSetup(labeled, start, chosen, max_length, catalog.build("maskings", masking), metric, methods)
    _enough(subject, limit)
    if stack is not None and stack > 1 and subject.why_alone is not None:
        raise TrothError(f"stack={stack}: {subject.why_alone}; use stack=1")
    _try_out(subject)
    return subject


def _enough(subject: BenchmarkSetup, limit: int | None) -> None:
    """Refuses a class with a single example, which cannot be learned; a limit or a split may cause that."""
    labels = subject.labeled.labels
    for split in ("train", "test"):
        data = subject.sets[split]
        counts = Counter(example.class_index for example in data if example.class_index is not None)
        for index, label in enumerate(labels):
            if counts[index] < 2:
                remedy = "raise --limit" if limit is not None else "drop that class or add examples"
                raise TrothError(
                    f"{subject.labeled.name}: {counts[index]} of {len(data)} {split} examples are of class {label!r}; "
                    f"retraining needs two of each class: {remedy}"
                )


def _try_out(subject: BenchmarkSetup) -> None:
    """Tries each explainer on the two shortest texts, partly erased, so that it is refused before any training."""
    chosen: list[Example] = sorted(subject.labeled.training, key=lambda example: len(example.text))[:2]
    encodings = subject.model.encode(chosen, units="token")
    prober = Prober(subject.model, subject.masking)
    for explainer in (Random(), *subject.methods):
        method = explainer.prepare(prober, encodings)
        for encoding in encodings:
            left = torch.ones(encoding.n_units)
            left[: encoding.n_units // 2] = 0
            target = encoding.example.class_index or 0
            prober.ask(method.ask([Question(encoding, target, base=left, erased_by=subject.masking)]))


@dataclass(frozen=True)
class Steps:
    """The total amounts erased at each step: shares in basis points, or numbers of tokens."""

    counted: Counted
    amounts: tuple[int, ...]  # without 0

    @property
    def places(self) -> list[float]:
        """The x-coordinates of a curve's points: shares from 0 to 1, or numbers of tokens."""
        scale = ALL if self.counted == "share" else 1
        return [amount / scale for amount in (0, *self.amounts)]

    @property
    def inner(self) -> tuple[int, ...]:
        """The amounts for which each measure has its own training: at 100 %, nothing is left to choose from."""
        return tuple(amount for amount in self.amounts if (self.counted, amount) != ("share", ALL))


def steps_of(step: Step, most: int = MOST) -> Steps:
    """0.1 is 10 %, 20 %, … 100 %; "one" is one token more each time, `most` times.

    >>> steps_of(0.25).amounts, steps_of("one", 3).amounts
    ((2500, 5000, 7500, 10000), (1, 2, 3))
    """
    if step == "one":
        if most < 1:
            raise TrothError(f"most must be 1 token or more, not {most}")
        return Steps("tokens", tuple(range(1, most + 1)))
    if isinstance(step, str | bool) or not 0 < step <= 1 or ALL % (points := basis_points(step)):
        raise TrothError(f"step must divide 1 (0.1, 0.05, 0.25, …) or be 'one' token, not {step!r}")
    return Steps("share", tuple(range(points, ALL + 1, points)))


class Planner:
    """Adds the cells of one or both benchmarks to one plan; shared cells are added once."""

    def __init__(
        self, subject: BenchmarkSetup, steps: Steps, seeds: Sequence[int], plan: Plan, *, absolute: bool = True,
        stack: int | None = None,
    ) -> None:  # fmt: skip
        if not seeds:
            raise TrothError("a benchmark needs at least one seed")
        self.subject, self.steps, self.seeds, self.plan = subject, steps, tuple(seeds), plan
        self.most = stack or subject.side_by_side(len(self.seeds))
        # Absolute and signed scores erase other tokens.
        self.common = {**subject.specs, "absolute": absolute}
        sizes = {name: len(data) for name, data in subject.sets.items()}
        plan.about |= {"data": {**plan.about.get("data", {}), subject.name: sizes}, "seeds": list(self.seeds)}
        self.data = tuple(
            plan.add(
                DataSpec(data=data.name, split=name, data_fingerprint=data.fingerprint).cell(), examples_to_table(data)
            ).name
            for name, data in subject.sets.items()
        )
        self.trained_in: dict[Training, Cell] = {}
        self.importances: dict[Training, dict[str, Cell]] = {}  # for each training's model, by explainer

    def add(self, ways: Sequence[Way]) -> None:
        """Adds everything that the curves of the explainers need."""
        methods = {catalog.spec(explainer, full=True): explainer for explainer in self.subject.methods}
        trained_before = len(self.trained_in)
        self._train([Training(seed) for seed in self.seeds], explained=True)
        for seed, method in itertools.product(self.seeds, (Random(), *methods.values())):
            self._explain(method, Training(seed))
        if ways:
            amounts = (*self.steps.inner, *((ALL,) if self.steps.counted == "share" else ()))
            self._train([self.training(_RANDOM, "once", *pair) for pair in itertools.product(self.seeds, amounts)])
        if "recursive" in ways:
            # The models of all measures at one step are trained side by side, because they are ready at the same time.
            for amount in self.steps.inner:
                pairs = itertools.product(methods, self.seeds)
                trainings = [self.training(name, "recursive", seed, amount) for name, seed in pairs]
                goes_on = amount != self.steps.inner[-1]
                self._train(trainings, explained=goes_on)
                for training in trainings if goes_on else ():
                    self._explain(methods[training.by], training)
        if "once" in ways:
            for name in methods:
                at = itertools.product(self.steps.inner, self.seeds)
                self._train([self.training(name, "once", seed, amount) for amount, seed in at])
        self.plan.about["trainings"] = self.plan.about.get("trainings", 0) + len(self.trained_in) - trained_before

    def training(self, by: str, way: Way, seed: int, amount: int) -> Training:
        """The training behind a point of a curve."""
        counted = self.steps.counted
        if amount == 0:
            return Training(seed)
        if (counted, amount) == ("share", ALL):
            return Training(seed, trail=(ALL,))
        trail = self.steps.amounts[: self.steps.amounts.index(amount) + 1] if way == "recursive" else (amount,)
        return Training(seed, by, trail, counted)

    def _decided_by(self, training: Training) -> Cell | None:
        """The importance that decides what is erased; None at 0 and 100 %."""
        if not training.by:
            return None
        before = Training(training.seed)
        if len(training.trail) > 1:
            before = replace(training, trail=training.trail[:-1])
        return self.importances[before][training.by]

    def _train(self, trainings: Sequence[Training], *, explained: bool = False) -> None:
        """Adds cells for trainings that no cell has yet, at most `most` in each."""
        new = [training for training in trainings if training not in self.trained_in]
        parts = math.ceil(len(new) / self.most)
        for numbers in np.array_split(np.arange(len(new)), parts) if parts else ():
            group = [(new[number], self._decided_by(new[number])) for number in numbers]
            sources = list(dict.fromkeys(cell.name for _, cell in group if cell is not None))
            copies = [
                {
                    **training.specs(),
                    "importance": -1 if cell is None else sources.index(cell.name),
                    # Both benchmarks share the training of the first step, whose model only the recursive one explains.
                    "keep_model": explained or (training.by != _RANDOM and training.trail == self.steps.inner[:1]),
                }
                for training, cell in group
            ]
            spec = TrainingSpec(
                **self.common, recipe="plain", model=catalog.spec(self.subject.base), data=self.subject.name,
                copies=copies, examples=len(group) * len(self.subject.labeled.training),
            )  # fmt: skip
            cell = self.plan.add(spec.cell(*self.data, *sources))
            self.trained_in |= {training: cell for training, _ in group}

    def _explain(self, method: Explainer, training: Training) -> None:
        """The importance of every token of every split to a training's model; random ones need no model."""
        full, parents, specs = catalog.spec(method, full=True), list(self.data), dict[str, Any]()
        if full != _RANDOM:
            parents.append(self.trained_in[training].name)
            specs["model"] = f"cell:{training.name(self.common)}"
        if (earlier := self._decided_by(training)) is not None:
            parents.append(earlier.name)
            specs |= {"counted": training.counted, "erased": training.trail[-1]}
        spec = ImportanceSpec(
            **self.common, **specs, explainer=catalog.spec(method), explainer_full=full, data=self.subject.name,
            seed=training.seed, examples=sum(map(len, self.subject.sets.values())),
        )  # fmt: skip
        self.importances.setdefault(training, {})[full] = self.plan.add(spec.cell(*parents))


def plan_for(
    data: Any, base: Any, explainers: Sequence[str | Explainer], ways: Sequence[Way], *, seeds: Sequence[int] = (0,),
    step: Step = 0.1, most: int = MOST, absolute: bool = True, stack: int | None = None, **options: Any,
) -> Planner:  # fmt: skip
    """The plan for one data set, from its data and base; `options` are those of `settle`."""
    steps = steps_of(step, most)
    subject = settle(data, base, explainers, stack=stack, **options)
    planner = Planner(subject, steps, seeds, Plan(probes=PROBES), absolute=absolute, stack=stack)
    planner.add(ways)
    return planner
