"""The runners of the AML study besides explaining and measuring: they train classifiers and fit attribution models.

Also estimates their cost for a dry run: trainings and passes are counted, and seconds extrapolated from a few steps on
this machine, without fitting anything. Explainers are tried on a few texts; for those that need too many passes (beam
search on long texts) and for attribution models that do not exist yet, the time is computed from the number of passes.
"""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from troth.attribution_model.fitting import train
from troth.attribution_model.losses import DualMask
from troth.attribution_model.start import FitSettings, choose, start
from troth.core import catalog
from troth.engine.prober import Prober
from troth.explainers import Explainer
from troth.explainers.attributive_masking import AttributiveMasking
from troth.metrics import Metric
from troth.metrics._erasing import Erasure
from troth.store.cells import Cell, CellOutput
from troth.store.specs import ExplanationSpec, MetricSpec, ModelSpec, Spec
from troth.store.tables import table_to_examples
from troth.sweep.context import Context
from troth.training import train as training
from troth.training.examples import load_labeled, load_training
from troth.verbs import fit as attributive_masking
from troth.verbs.explain import explain_each

PROBES = {
    "classifier": "troth.studies.aml._works:seconds_of_classifier",
    "attribution_models": "troth.studies.aml._works:seconds_of_fit",
    "explanation": "troth.studies.aml._works:seconds_of_explanation",
    "metric": "troth.studies.aml._works:seconds_of_metric",
}
_TEXTS = 2  # texts of a trial
_MOST = 200  # passes per text in a trial; for more, the time is computed from their number
_STEPS = 2  # steps of a trial training
_CLASSIFIED, _EPOCHS = 64, 4  # examples and epochs of a classifier's trial training


@dataclass(frozen=True, kw_only=True)
class ClassifierSpec(Spec):
    kind = "classifier"
    runner = "troth.studies.aml._works:train_classifier"

    base: str
    data: str
    epochs: int
    batch_size: int
    learning_rate: float
    limit: int | None
    seed: int


@dataclass(frozen=True, kw_only=True)
class AttributionModelsSpec(ModelSpec):
    kind = "attribution_models"
    runner = "troth.studies.aml._works:fit_attribution_models"

    data: str
    backbone: str | None
    metrics: Sequence[str]
    recipe: str  # the variant of the loss
    without: Sequence[str]
    form: Mapping[str, Any]
    settings: Mapping[str, Any]


def train_classifier(cell: Cell, parents: Sequence[pa.Table], context: Context) -> CellOutput:
    """A plainly fine-tuned model folder; the row has its performance."""
    spec = ClassifierSpec.of(cell)
    with context.new_folder(cell) as folder:
        trained = training.train(
            "plain", spec.data, spec.base, folder, epochs=spec.epochs, batch_size=spec.batch_size,
            learning_rate=spec.learning_rate, limit=spec.limit, seed=spec.seed,
        )  # fmt: skip
    _give_back()
    metric = trained.report["metric"]
    score = trained.scores["validation"]["unmasked"][metric]
    rows = [{"metric": metric, "value": score, "seconds": trained.report["seconds"]}]
    return CellOutput(pa.Table.from_pylist(rows), folders=(cell.name,))


def fit_attribution_models(cell: Cell, parents: Sequence[pa.Table], context: Context) -> CellOutput:
    """A folder with an attribution model for each metric; one row for each, with the weights of its losses."""
    spec = AttributionModelsSpec.of(cell)
    with context.new_folder(cell) as folder:
        fitted = attributive_masking.fit(
            context.model(spec), spec.data, folder, backbone=spec.backbone, metrics=spec.metrics, without=spec.without,
            form=DualMask(**spec.form), settings=FitSettings(**spec.settings),
        )  # fmt: skip
        rows = [
            {
                "metric": metric,
                "split": report["data"]["split"],
                "backbone": report["backbone"],
                "sampler": report["search"]["sampler"],
                "seconds": report["seconds"],
                **{name: float(report["loss"][name]) for name in ("prediction", "sparsity", "inverse")},
            }
            for metric, report in fitted.reports.items()
        ]
    _give_back()
    return CellOutput(pa.Table.from_pylist(rows), folders=(cell.name,))


def _give_back() -> None:
    """Releases unused GPU memory, for which other processes may be waiting."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@dataclass(frozen=True)
class Effort:
    """The cost of a fit: trainings (including trials), rows they read, and passes of the explained model to judge
    maps.

    A row of training takes two forward and backward passes of the explained model and one of G.
    """

    trainings: int
    rows: int
    judged: int

    @property
    def forward(self) -> int:
        """Forward passes of the explained model."""
        return 2 * self.rows + self.judged

    @property
    def backward(self) -> int:
        """Backward passes of the explained model."""
        return 2 * self.rows


def effort(settings: FitSettings, metrics: Sequence[str]) -> Effort:
    """The cost of a fit for these metrics, if there are as many examples as it asks for."""
    trials = settings.trials * (len(metrics) if settings.trials_per_metric else 1)
    tried = settings.steps(min(settings.trial_examples, settings.examples), settings.trial_epochs)
    steps = settings.steps(settings.examples, settings.epochs)
    every = max(1, round(settings.validate_every * -(-settings.examples // settings.batch_size)))
    all_of_them = attributive_masking.watched(metrics)
    judging = sum(_passes_to_judge([metric]) * -(-steps // every) + _passes_to_judge(all_of_them) for metric in metrics)
    if settings.trials_per_metric:
        judging += settings.trials * sum(_passes_to_judge([metric]) for metric in metrics)
    else:
        judging += settings.trials * _passes_to_judge(all_of_them)
    rows = (trials * tried + len(metrics) * steps) * min(settings.batch_size, settings.examples)
    return Effort(trials + len(metrics), rows, judging * settings.validation)


def _passes_to_judge(metrics: Sequence[str]) -> int:
    """The passes to judge one map: the whole text, and the erased inputs of each metric."""
    built: list[Metric] = [catalog.build("metrics", metric) for metric in metrics]
    return 1 + sum(len(metric.shares) if isinstance(metric, Erasure) else 1 for metric in built)


def seconds_of_fit(cell: Cell, tables: Mapping[str, pa.Table], context: Context) -> float:
    """Extrapolates from two training steps and the judging of a few maps."""
    specs, model = cell.specs, context.model(ModelSpec.of(cell))
    settings = FitSettings(**specs["settings"])
    begun = start(model, specs["backbone"], settings.seed, settings.variant).model
    examples, checked = choose(model, load_training(specs["data"], required=False), settings)
    few = examples.first(_STEPS * settings.batch_size)

    def steps() -> int:
        train(model, begun, few, DualMask(), settings, epochs=1)
        return len(few.encodings)

    def judging() -> int:
        first = checked.first(_TEXTS)
        attributive_masking.judge(model, begun, first, [attributive_masking.CHOSEN])
        return len(first.encodings) * _passes_to_judge([attributive_masking.CHOSEN])

    whole = effort(settings, specs["metrics"])
    return whole.rows * _pace(steps) + whole.judged * _pace(judging)


def seconds_of_explanation(cell: Cell, tables: Mapping[str, pa.Table], context: Context) -> float:
    """Extrapolates from a trial on a few texts, or computes from the passes of a method that takes too many or is not
    fitted.
    """
    examples = table_to_examples(tables[cell.parents[0]])
    method: Explainer = catalog.build("explainers", ExplanationSpec.of(cell).explainer_full)
    encodings = context.once(
        ("encodings", *_key(cell)), lambda: context.model(ModelSpec.of(cell)).encode(examples, "token")
    )
    passes = [method.passes(encoding.n_units) for encoding in encodings]
    if isinstance(method, AttributiveMasking) or max(passes) > _MOST:
        return float(sum(passes) * _seconds_a_pass(cell, tables, context))
    prober = Prober(context.model(ModelSpec.of(cell)), cell.specs["masking"])
    return _pace(lambda: len(list(explain_each(prober, examples[:_TEXTS], method, units="token")))) * len(examples)


def seconds_of_metric(cell: Cell, tables: Mapping[str, pa.Table], context: Context) -> float:
    """Computed from the number of passes."""
    looks = _passes_to_judge([MetricSpec.of(cell).metric_full])
    return float(looks * tables[cell.parents[1]].num_rows * _seconds_a_pass(cell, tables, context))


def seconds_of_classifier(cell: Cell, tables: Mapping[str, pa.Table], context: Context) -> float:
    """Extrapolates from a few epochs on a few examples."""
    specs = cell.specs
    with tempfile.TemporaryDirectory() as folder:
        few = training.train(
            "plain", specs["data"], specs["base"], Path(folder) / "few", epochs=_EPOCHS, batch_size=specs["batch_size"],
            limit=_CLASSIFIED, checkpoints=False,
        )  # fmt: skip
    examples = len(load_labeled(specs["data"], limit=specs["limit"]).training)
    seconds = max(float(few.report["seconds"]), 0.05)  # the report rounds to tenths of a second
    return seconds * float(specs["epochs"]) * examples / (_EPOCHS * _CLASSIFIED)


def passes_a_text(method: Explainer, lengths: Sequence[int]) -> float:
    """The approximate number of rows per text that a method asks of the model."""
    return float(np.mean([method.passes(length) for length in lengths]))


def _seconds_a_pass(cell: Cell, tables: Mapping[str, pa.Table], context: Context) -> float:
    """Seconds per erased text within a batch: leave-one-out over a few texts."""

    def measure() -> float:
        prober = Prober(context.model(ModelSpec.of(cell)))
        examples = table_to_examples(tables[cell.parents[-1]])[:_TEXTS]

        def ask() -> int:
            attributions = explain_each(prober, examples, "leave_one_out", units="token")
            return sum(len(attribution.units) + 1 for attribution in attributions)

        return _pace(ask)

    return context.once(("seconds a pass", *_key(cell)), measure)


def _key(cell: Cell) -> tuple[str, str]:
    return ModelSpec.of(cell).key, cell.parents[-1]


def _pace(work: Callable[[], int]) -> float:
    """Seconds per item of some work, which returns the number of items; on a GPU, a first run warms up."""
    if torch.cuda.is_available():
        work()
    begun = time.perf_counter()
    count = work()
    return (time.perf_counter() - begun) / max(1, count)
