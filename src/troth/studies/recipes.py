"""How training recipes change accuracy and faithfulness of a model: plain, masked, salience-guided, and both.

The before-and-after report of a user's own data. Masked fine-tuning (Madsen et al., 2024) makes erased inputs in
distribution; salience (SaLoss, Chrysostomou & Aletras, 2021) guides attention. RACU is of the data set's own metric.
Intervals: over examples and seeds; RACU over seeds where there are several, else over examples (BCa). Recipes are
compared on the same examples, seed by seed (`seeds.difference`).

RACU masks: it measures faithfulness only where masked inputs are in distribution, so every recipe's own masked inputs
are tested (calibrated MaSF) against held-out texts as its training had them: whole, or every second one masked. The
flip fraction and comprehensiveness delete, of which MaSF says nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from troth.core import catalog
from troth.core.errors import TrothError
from troth.explainers import Explainer
from troth.metrics import Metric
from troth.metrics.recursive_erasure import RecursiveErasure
from troth.seeds import difference, over_seeds
from troth.statistics import CrossedMean, simes
from troth.store.cells import Cell, Plan
from troth.studies import Section, Setting
from troth.studies._results import Range, Results, estimate, with_interval
from troth.studies._trained_study import Experiment, StudyData, TrainedStudy
from troth.studies.fmm._works import ErasedCheckSpec
from troth.validity.checking import LEVEL
from troth.validity.masf import data_set_p_value
from troth.verbs.tune import with_salience

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECIPES = ("plain", "masked", "salience", "masked + salience")
METRICS = {"flip fraction": "decision_flip", "RACU": "recursive_erasure", "comprehensiveness": "comprehensiveness"}
OUTSIDE = "masked inputs out of distribution"
_BETTER = {"accuracy": "higher", "flip fraction": "lower", "RACU": "higher", "comprehensiveness": "higher"}
Ranges = Mapping[str, Mapping[str, Range]]  # by recipe and measure
# By recipe and measure: for each seed one value per example (RACU: a single value).
Values = Mapping[str, Mapping[str, Sequence[Any]]]


@dataclass(frozen=True, eq=False)
class RecipesExperiment(Experiment):
    """Models by recipe and seed, and the scores of their explanations."""

    explainers: tuple[str, ...]
    salience: Mapping[str, Any]

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """Each measure's metric; its open options are resolved once for the data set."""
        methods: list[Explainer] = [catalog.build("explainers", explainer) for explainer in self.explainers]
        built: dict[str, Metric] = {name: catalog.build("metrics", spec) for name, spec in METRICS.items()}
        return {name: metric.settled(methods, self.data.splits["test"]) for name, metric in built.items()}

    def models(self, recipe: str) -> list[Cell]:
        """One training per seed."""
        changed: Any = with_salience(recipe, **self.salience) if "salience" in recipe else recipe
        return [self.train(changed, seed) for seed in self.seeds]

    def scores(self, recipe: str, explainer: str, name: str) -> list[Cell]:
        """The scores of a measure for each seed."""
        cells = [self.explain(model, explainer, units="word") for model in self.models(recipe)]
        return [self.score(cell, catalog.spec(self.metrics[name])) for cell in cells]

    def checks(self, recipe: str, explainer: str) -> list[Cell]:
        """In-distribution tests, per seed, of the masked inputs that RACU depends on."""
        test, validation = self.data_cell("test"), self.data_cell("validation")
        return [
            self.plan.add(ErasedCheckSpec.of(erased).cell(erased, test, validation, test, model))
            for erased, model in zip(self.scores(recipe, explainer, "RACU"), self.models(recipe), strict=True)
        ]


@dataclass(frozen=True)
class Recipes(TrainedStudy[RecipesExperiment]):
    parts: ClassVar[Mapping[str, str]] = {"report": "Accuracy, flip fraction, RACU and comprehensiveness by recipe"}

    explainers: tuple[str, ...] = ("attention", "input_x_gradient", "leave_one_out")
    source: str = "text_rank"  # of the salience
    weight: float = 1e-3  # λ
    epochs: int = 0  # 0: the base's own, as for the next two
    batch_size: int = 0
    learning_rate: float = 0.0
    examples: int = 0  # test examples; 0: all

    def __post_init__(self) -> None:
        for explainer in self.explainers:
            catalog.build("explainers", explainer)
        with_salience("salience", source=self.source, weight=self.weight)

    def experiment(self, data: StudyData, plan: Plan, setting: Setting) -> RecipesExperiment:
        if not setting.base:
            raise TrothError("name a model to start from: --base FOLDER_OR_HUB_NAME (say, bert-base-uncased)")
        salience = {"source": self.source, "weight": self.weight}
        return RecipesExperiment(
            data, setting.base, plan, setting.seeds, self.changed, self.paper, self.explainers, salience
        )

    def add_cells(self, part: str, experiment: RecipesExperiment) -> None:
        for recipe, explainer in itertools.product(RECIPES, self.explainers):
            for name in METRICS:
                experiment.scores(recipe, explainer, name)
            experiment.checks(recipe, explainer)

    def tables(self, part: str, experiments: Sequence[RecipesExperiment], results: Results) -> Iterator[Section]:
        for experiment, explainer in itertools.product(experiments, self.explainers):
            yield _section(experiment, explainer, results)


def _section(experiment: RecipesExperiment, explainer: str, results: Results) -> Section:
    values: dict[str, dict[str, Sequence[Any]]] = {}
    ranges: dict[str, dict[str, Range]] = {}
    outside: dict[str, tuple[int, int, float]] = {}
    undefined = []
    for recipe in RECIPES:
        right = [np.equal(*results.predicted(model)).astype(np.float64) for model in experiment.models(recipe)]
        values[recipe] = {"accuracy": right}
        ranges[recipe] = {"accuracy": over_seeds(right)}
        for name, metric in experiment.metrics.items():
            cells = experiment.scores(recipe, explainer, name)
            if name != "RACU":
                values[recipe][name] = [results.values(cell) for cell in cells]
                ranges[recipe][name] = over_seeds(values[recipe][name])
                continue
            by_seed = [metric.summarize(scores) if (scores := results.scores(cell)) else None for cell in cells]
            summaries = [summary for summary in by_seed if summary]
            values[recipe][name] = [
                [summary.value] if summary and not np.isnan(summary.value) else [] for summary in by_seed
            ]
            ranges[recipe][name] = estimate([summary.value for summary in summaries])
            if len(summaries) == 1:  # a single seed has an interval over its examples
                ranges[recipe][name] = summaries[0].value, summaries[0].low, summaries[0].high
            without = [summary for summary in summaries if np.isnan(summary.value)]
            if without:
                why = "; ".join(without[0].undefined)
                undefined.append(f"{recipe}, {len(without)} of {len(summaries)} seeds ({why})")
        outside[recipe] = _outside(recipe, [results.rows(cell) for cell in experiment.checks(recipe, explainer)])
    racu = experiment.metrics["RACU"]
    assert isinstance(racu, RecursiveErasure)
    performance = racu.performance or "accuracy"
    more = {recipe: _more(values, recipe, "plain") for recipe in RECIPES if recipe != "plain"}
    words = [_change(explainer, more["masked + salience"]), f"RACU is of the {performance.replace('_', '-')}."]
    words += [f"No RACU: {'; '.join(undefined)}."] if undefined else []
    words += [_validity(outside)]
    measures = ("accuracy", *METRICS)
    columns = ("recipe", *(f"{name} ({_BETTER[name]} is better)" for name in measures), OUTSIDE)
    rows, facts = [], dict[str, Any]()
    for recipe, found in ranges.items():
        cases, of, p = outside[recipe]
        tested = f"{cases} of {of}, p = {p:.2g}" if of else "not tested"
        rows.append([recipe, *(with_interval(found[name]) for name in measures), tested])
        facts[recipe] = {name: dict(zip(("value", "low", "high"), found[name], strict=True)) for name in measures}
        for name, change in more.get(recipe, {}).items():
            facts[recipe][name]["more_than_plain"] = change._asdict()
        facts[recipe]["out_of_distribution"] = {"cases": cases, "of": of, "p": p}
    data = experiment.name
    return Section(
        "report", f"{explainer} on {data}: four ways to train the same model", columns, rows,
        " ".join(filter(None, words)), {f"{data} {explainer}": facts}, partial(_draw, ranges=ranges),
    )  # fmt: skip


def _outside(recipe: str, by_seed: Sequence[Sequence[Mapping[str, Any]]]) -> tuple[int, int, float]:
    """The number of cases (masking ratios above 0 × seeds) with p below 0.05, the number of all cases, and Simes's
    p-value.
    """
    references = "half masked" if "masked" in recipe else "whole"  # as in the recipe's training
    p: list[float] = []
    for rows in by_seed:
        kept = [row["p"][1:] for row in rows if (row["references"], row["variant"]) == (references, "calibrated")]
        p += [data_set_p_value(ratio) for ratio in np.array(kept).T] if kept else []
    return sum(value < LEVEL for value in p), len(p), float(simes(p)) if p else float("nan")


def _validity(outside: Mapping[str, tuple[int, int, float]]) -> str:
    """The recipes for which RACU cannot be interpreted as faithfulness."""
    said = (
        f"Out of distribution: cases with p < {LEVEL} (calibrated MaSF, Simes over texts) of masking ratios above 0 × "
        "seeds, and Simes's p over the cases."
    )
    invalid = [recipe for recipe, (_, of, p) in outside.items() if of and p < LEVEL]
    untested = [recipe for recipe, (_, of, _) in outside.items() if not of]
    if invalid:
        said += f" RACU is not valid as faithfulness for {', '.join(invalid)}."
    if untested:
        said += f" Whether RACU is valid as faithfulness was not tested for {', '.join(untested)}."
    return said


def _more(values: Values, recipe: str, than: str) -> dict[str, CrossedMean]:
    """The difference in each measure between two recipes on the same examples, seed by seed."""
    return {name: difference(values[recipe][name], values[than][name]) for name in values[recipe]}


def _change(explainer: str, more: Mapping[str, CrossedMean]) -> str:
    """The change from plain to the recipe with both parts, with intervals and p-values."""
    parts = []
    for name, found in more.items():
        if not np.isnan(found.mean):
            sure = "" if np.isnan(found.p) else f" [{found.low:+.3f}, {found.high:+.3f}], p = {found.p:.2g}"
            parts.append(f"{name} {found.mean:+.3f}{sure}")
    said = "From plain to masked + salience, on the same examples, seed by seed"
    return f"{said}, {explainer}: {'; '.join(parts)}." if parts else ""


def _draw(figure: Figure, ranges: Ranges) -> None:
    for axes, name in zip(figure.subplots(1, len(_BETTER)), _BETTER, strict=True):
        for place, values in enumerate(ranges.values()):
            value, low, high = values[name]
            axes.bar(place, value)
            axes.plot([place, place], [low, high], color="black")
        axes.set_xticks(range(len(ranges)), list(ranges), rotation=45, ha="right", fontsize=8)
        axes.set_title(f"{name}\n({_BETTER[name]} is better)", fontsize=9)
