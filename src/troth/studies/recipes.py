"""What a training recipe buys: accuracy and faithfulness of the same model, plain, masked, salience-guided, and both.

The before-and-after report of a user's own data. Masked fine-tuning (Madsen et al., 2024) makes erased inputs in
distribution; salience (SaLoss, Chrysostomou & Aletras, 2021) guides attention. RACU is of the data set's own metric.
Intervals: over examples and seeds; RACU over seeds where there are several, else over examples (BCa).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from troth import statistics
from troth.core import catalog
from troth.core.types import Score
from troth.explainers import Explainer
from troth.metrics import Metric, Summary
from troth.seeds import over_seeds
from troth.store.cells import Cell, Plan
from troth.studies import Section, Setting, Study
from troth.studies._trained import Results, Trials, load, require_base, settings_like
from troth.studies.saloss._experiment import without_trainings
from troth.verbs.tune import with_salience

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECIPES = ("plain", "masked", "salience", "masked + salience")
METRICS = {
    "flip fraction": "decision_flip",
    "RACU": "recursive_erasure",
    "comprehensiveness": "comprehensiveness",
}
_BETTER = {"accuracy": "higher", "flip fraction": "lower", "RACU": "higher", "comprehensiveness": "higher"}
Range = tuple[float, float, float]  # value, low, high


@dataclass(frozen=True)
class Recipes(Study):
    parts: ClassVar[Mapping[str, str]] = {"report": "Accuracy, flip fraction, RACU and comprehensiveness by recipe"}

    explainers: tuple[str, ...] = ("attention", "input_x_gradient", "leave_one_out")
    source: str = "text_rank"  # of the salience
    weight: float = 1e-3  # λ
    epochs: int = 0  # 0: the base's own, as for what follows
    batch_size: int = 0
    learning_rate: float = 0.0
    examples: int = 0  # of the test set; 0: all

    def __post_init__(self) -> None:
        for explainer in self.explainers:
            catalog.build("explainers", explainer)
        with_salience("salience", source=self.source, weight=self.weight)

    def plan(self, part: str, setting: Setting) -> Plan | None:
        plan = Plan()
        for trials in self._trials(setting, plan):
            self._cells(trials, setting.seeds)
        return without_trainings(plan)

    def sections(self, part: str, setting: Setting) -> Iterator[Section]:
        plan = Plan()
        planned = [(trials, *self._cells(trials, setting.seeds)) for trials in self._trials(setting, plan)]
        results = Results(setting.carry_out(plan)[0])
        for (trials, models, metrics), explainer in itertools.product(planned, self.explainers):
            found = {
                recipe: {
                    "accuracy": _accuracy(models[recipe], results),
                    **{name: _summary(metrics[recipe, explainer, name], results) for name in METRICS},
                }
                for recipe in RECIPES
            }
            lost = [_undefined(recipe, metrics[recipe, explainer, "RACU"], results) for recipe in RECIPES]
            racu = _metric_of(metrics["plain", explainer, "RACU"]).performance or "accuracy"
            words = [f"RACU is of the {racu.replace('_', '-')}."]
            words += [f"No RACU: {'; '.join(filter(None, lost))}."] if any(lost) else []
            yield _section(
                part, trials.material.name, explainer, found, " ".join([*words, results.troubles(plan)]).strip()
            )

    def _trials(self, setting: Setting, plan: Plan) -> list[Trials]:
        base = require_base(setting.base, " (say, bert-base-uncased)")
        materials = [load(name, limit=setting.limit, examples=self.examples) for name in setting.data or ("sst",)]
        return [Trials(material, base, plan) for material in materials]

    def _cells(
        self, trials: Trials, seeds: Sequence[int]
    ) -> tuple[dict[str, list[Cell]], dict[tuple[str, str, str], list[Cell]]]:
        """The trainings by recipe, and the scores by recipe, explainer and measure; a seed each."""
        models: dict[str, list[Cell]] = {}
        metrics: dict[tuple[str, str, str], list[Cell]] = {}
        methods: list[Explainer] = [catalog.build("explainers", explainer) for explainer in self.explainers]
        test = trials.material.splits["test"]
        built: dict[str, Metric] = {name: catalog.build("metrics", spec) for name, spec in METRICS.items()}
        judges = {name: judge.settled(methods, test) for name, judge in built.items()}
        given = {"epochs": self.epochs, "batch_size": self.batch_size, "learning_rate": self.learning_rate}
        for recipe in RECIPES:
            asked: Any = recipe
            if "salience" in recipe:
                asked = with_salience(recipe, source=self.source, weight=self.weight)
            how = settings_like(None, asked, trials.base, trials.material, **given)
            models[recipe] = [trials.training(*how, seed) for seed in seeds]
            for explainer in self.explainers:
                cells = [trials.explanation(model, explainer, units="word") for model in models[recipe]]
                for name, judge in judges.items():
                    metrics[recipe, explainer, name] = [trials.metric(cell, catalog.spec(judge)) for cell in cells]
        return models, metrics


def _accuracy(models: Sequence[Cell], results: Results) -> Range:
    return over_seeds([np.equal(*results.predicted(model)).astype(np.float64) for model in models])


def _metric_of(cells: Sequence[Cell]) -> Any:
    """The metric whose scores these are."""
    return catalog.build("metrics", cells[0].specs["metric_full"])


def _summary(cells: Sequence[Cell], results: Results) -> Range:
    """A measure over seeds and its interval."""
    metric: Metric = _metric_of(cells)
    scores: list[list[Score]] = [found for cell in cells if (found := results.scores(cell))]
    if not scores:
        return np.nan, np.nan, np.nan
    if catalog.name_of(metric) != METRICS["RACU"]:
        return over_seeds([[score.value for score in one] for one in scores])
    summaries: list[Summary] = [metric.summarize(one) for one in scores]
    if len(summaries) == 1:
        return summaries[0].value, summaries[0].low, summaries[0].high
    values_by_seed = [summary.value for summary in summaries]
    return float(np.nanmean(values_by_seed)), *statistics.bca_interval(values_by_seed)


def _undefined(recipe: str, cells: Sequence[Cell], results: Results) -> str:
    """How many seeds have no RACU, and why; "" where all have one."""
    metric: Metric = _metric_of(cells)
    summaries = [metric.summarize(found) for cell in cells if (found := results.scores(cell))]
    without = [summary for summary in summaries if np.isnan(summary.value)]
    if not without:
        return ""
    return f"{recipe}, {len(without)} of {len(summaries)} seeds ({'; '.join(without[0].undefined)})"


def _section(part: str, data: str, explainer: str, found: Mapping[str, Mapping[str, Range]], words: str) -> Section:
    measures = ("accuracy", *METRICS)
    columns = ("recipe", *(f"{name} ({_BETTER[name]} is better)" for name in measures))
    rows = [[recipe, *(_shown(values[name]) for name in measures)] for recipe, values in found.items()]
    facts = {
        recipe: {name: dict(zip(("value", "low", "high"), values[name], strict=True)) for name in measures}
        for recipe, values in found.items()
    }

    def draw(figure: Figure) -> None:
        for axes, name in zip(figure.subplots(1, len(measures)), measures, strict=True):
            for place, values in enumerate(found.values()):
                value, low, high = values[name]
                axes.bar(place, value)
                axes.plot([place, place], [low, high], color="black")
            axes.set_xticks(range(len(found)), list(found), rotation=45, ha="right", fontsize=8)
            axes.set_title(f"{name}\n({_BETTER[name]} is better)", fontsize=9)

    title = f"{explainer} on {data}: four ways to train the same model"
    return Section(part, title, columns, rows, " ".join(filter(None, [_said(explainer, found), words])), {
        f"{data} {explainer}": facts
    }, draw)  # fmt: skip


def _said(explainer: str, found: Mapping[str, Mapping[str, Range]]) -> str:
    """What changed from plain to the recipe with both parts; "beyond chance" where the intervals do not meet."""
    before, after = found["plain"], found["masked + salience"]
    parts = []
    for name in ("accuracy", *METRICS):
        (was, was_low, was_high), (now, now_low, now_high) = before[name], after[name]
        if np.isnan(was) or np.isnan(now):
            continue
        apart = now_low > was_high or now_high < was_low
        parts.append(f"{name} {was:.3f} → {now:.3f}{' (intervals apart)' if apart else ''}")
    return f"From plain to masked + salience, {explainer}: {'; '.join(parts)}." if parts else ""


def _shown(value: Range) -> str:
    if np.isnan(value[0]):
        return "–"
    return f"{value[0]:.3f} [{value[1]:.3f}, {value[2]:.3f}]"
