"""Goodhart's law: how much can a metric be inflated without changing a single prediction (Hsia et al., 2023)?

A trained model is wrapped so that it tells erased texts from whole ones and answers them as comprehensiveness and
sufficiency reward. Predictions on whole texts, and explanations that ask about whole texts alone, stay as they were.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from troth.core import catalog
from troth.engine.prober import Prober
from troth.metrics import Metric
from troth.models import TextClassifier, short_name
from troth.seeds import difference
from troth.statistics import Floats, crossed_mean
from troth.store.cells import Cell, CellOutput, Plan
from troth.store.specs import ModelSpec
from troth.store.tables import table_to_examples
from troth.studies import Section, Setting
from troth.studies._results import Results, with_interval
from troth.studies._trained_study import Experiment, StudyData, TrainedStudy, full_spec
from troth.studies.gaming._gamed import DETECTORS, Gamed
from troth.sweep.context import Context
from troth.training.quality import predict
from troth.verbs.explain import explain_each
from troth.verbs.measure import measure_each

HONEST, RANDOM = "honest", "random"
SCORES = pa.schema(
    {
        "model": pa.string(), "explainer": pa.string(), "example_id": pa.string(), "value": pa.float64(),
        "same_prediction": pa.bool_(),
    }
)  # fmt: skip
METRICS = (
    "comprehensiveness(masking=mask_token)", "sufficiency(masking=mask_token)", "comprehensiveness", "sufficiency",
    "aopc_comprehensiveness", "aopc_sufficiency", "normalized_comprehensiveness", "normalized_sufficiency",
    "soft_comprehensiveness(scores=rank)", "soft_sufficiency(scores=rank)", "decision_flip",
    "recursive_erasure(recompute=False)", "normalized_aopc", "linear_score", "f_fidelity(samples=10)",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GamedSpec(ModelSpec):
    """A metric's scores of one explainer, for the model as it is and for the gamed model."""

    kind = "gamed"
    runner = "troth.studies.gaming:measure"
    columns = SCORES

    explainer_full: str
    metric_full: str
    seed: int


def measure(cell: Cell, parents: Sequence[pa.Table], context: Context) -> CellOutput:
    """The parents are the texts and the training."""
    spec, examples = GamedSpec.of(cell), table_to_examples(parents[0])
    model = context.model(spec)
    models: dict[str, TextClassifier] = {HONEST: model}
    # The wrapped model encodes the texts.
    models |= {name: Gamed(model, detects) for name, detects in DETECTORS.items()}  # type: ignore[abstract]
    whole = predict(model, examples).argmax(-1)
    rows = []
    for name, each in models.items():
        same = (predict(each, examples).argmax(-1) == whole).tolist()
        attributions = list(explain_each(Prober(each), examples, spec.explainer_full, seed=spec.seed))
        scores = measure_each(
            Prober(each), attributions, spec.metric_full, explainer=spec.explainer_full, seed=spec.seed
        )
        rows += [
            {"model": name, "explainer": spec.explainer_full, "example_id": example.id, "value": score.value,
             "same_prediction": kept}
            for example, score, kept in zip(examples, scores, same, strict=True)
        ]  # fmt: skip
    return CellOutput(pa.Table.from_pylist(rows, schema=SCORES))


@dataclass(frozen=True, eq=False)
class GamingExperiment(Experiment):
    """One plain model per seed, and the scores of each metric, honest and gamed."""

    explainers: tuple[str, ...]
    metrics: tuple[str, ...]

    def scores(self, explainer: str, metric: str, seed: int) -> Cell:
        """One metric of one explainer."""
        model = self.train("plain", seed)
        spec = GamedSpec(
            model=f"cell:{model.name}", explainer_full=full_spec(explainer), metric_full=full_spec(metric, "metrics"),
            seed=seed,
        )  # fmt: skip
        return self.plan.add(spec.cell(self.data_cell("test"), model))

    def values(self, results: Results, explainer: str, metric: str, model: str) -> list[Floats]:
        """[texts] of each seed."""
        by_seed = [results.rows(self.scores(explainer, metric, seed)) for seed in self.seeds]
        return [
            np.array([np.nan if row["value"] is None else row["value"] for row in rows if row["model"] == model])
            for rows in by_seed
        ]  # fmt: skip

    def rows(self, results: Results) -> Iterator[dict[str, Any]]:
        """Every score with the data, the base and the seed."""
        for explainer, metric, seed in itertools.product((*self.explainers, RANDOM), self.metrics, self.seeds):
            for row in results.rows(self.scores(explainer, metric, seed)):
                about = {"data": self.name, "base": short_name(self.base), "seed": seed, "metric": metric}
                yield {**about, **row, "explainer": explainer}


@dataclass(frozen=True)
class Gaming(TrainedStudy[GamingExperiment]):
    parts: ClassVar[Mapping[str, str]] = {"metrics": "What each metric says of the same predictions, honest and gamed"}

    explainers: tuple[str, ...] = ("integrated_gradients", "leave_one_out")
    metrics: tuple[str, ...] = METRICS
    examples: int = 60  # test examples
    epochs: int = 0  # 0: the base's own, as for the next two
    batch_size: int = 0
    learning_rate: float = 0.0

    def __post_init__(self) -> None:
        for kind, specs in (("explainers", self.explainers), ("metrics", self.metrics)):
            for spec in specs:
                catalog.build(kind, spec)

    def experiment(self, data: StudyData, plan: Plan, setting: Setting) -> GamingExperiment:
        base, changed = setting.base or "embedded", self.changed
        return GamingExperiment(data, base, plan, setting.seeds, changed, None, self.explainers, self.metrics)

    def add_cells(self, part: str, experiment: GamingExperiment) -> None:
        for seed, explainer, metric in itertools.product(
            experiment.seeds, (*self.explainers, RANDOM), self.metrics
        ):  # fmt: skip
            experiment.scores(explainer, metric, seed)

    def tables(self, part: str, experiments: Sequence[GamingExperiment], results: Results) -> Iterator[Section]:
        for experiment, explainer in itertools.product(experiments, self.explainers):
            yield _section(experiment, explainer, self.metrics, results)


def _section(experiment: GamingExperiment, explainer: str, metrics: Sequence[str], results: Results) -> Section:
    table, facts, gamed = [], {}, []
    for metric in metrics:
        judge: Metric = catalog.build("metrics", metric)
        sign = 1 if judge.higher_is_better else -1
        row: list[Any] = [metric]
        fact: dict[str, Any] = {"higher_is_better": judge.higher_is_better}
        honest = experiment.values(results, explainer, metric, HONEST)
        for model in (HONEST, *DETECTORS):
            values, random = (experiment.values(results, each, metric, model) for each in (explainer, RANDOM))
            told = [np.sign(sign * (a - b)) / 2 + 0.5 for a, b in zip(values, random, strict=True)]
            found = {"explained": crossed_mean(values), "random": crossed_mean(random), "told": crossed_mean(told)}
            row += [with_interval(each[:3], 2) for each in found.values()]
            fact[model] = {
                name: {"mean": each.mean, "low": each.low, "high": each.high} for name, each in found.items()
            }
            if model != HONEST:
                inflated = difference([sign * each for each in values], [sign * each for each in honest])
                fact[model]["inflated"] = {"mean": inflated.mean, "low": inflated.low, "high": inflated.high}
                row.append(with_interval(inflated[:3], 2))
                if inflated.low > 0:
                    gamed.append(metric)
        table.append(row)
        facts[metric] = fact
    each = ("explained", "random", "told apart")
    columns = ("metric", *each, *(f"{name}: {what}" for name in DETECTORS for what in (*each, "better by")))
    words = (
        f"{explainer} on {experiment.name}; [95 % intervals] over texts and seeds. Told apart: share of texts in which "
        "the explanation scores better than random words, a tie counts half. Better by: what gaming gains in the "
        f"direction that the metric calls better. {_same(experiment, explainer, metrics, results)} "
        f"{_verdict(metrics, gamed)}"
    )
    title = f"Gamed metrics of {explainer} on {experiment.name}"
    return Section("metrics", title, columns, table, words, {f"{experiment.name} {explainer}": facts})


def _verdict(metrics: Sequence[str], gamed: Sequence[str]) -> str:
    inflated = [metric for metric in metrics if metric in gamed]
    resist = [metric for metric in metrics if metric not in gamed]
    said = f"Inflated: {', '.join(inflated) or 'none'}."
    return f"{said} Not inflated: {', '.join(resist) or 'none'}."


def _same(experiment: GamingExperiment, explainer: str, metrics: Sequence[str], results: Results) -> str:
    """The number of predictions on whole texts that gaming changed."""
    rows = [row for metric in metrics[:1] for seed in experiment.seeds
            for row in results.rows(experiment.scores(explainer, metric, seed))]  # fmt: skip
    changed = sum(not row["same_prediction"] for row in rows)
    return f"Predictions on whole texts that are another: {changed} of {len(rows)}."
