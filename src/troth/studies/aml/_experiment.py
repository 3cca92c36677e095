"""One data set of the AML study: the explained model, its attribution models, and what every explainer scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import torch

from troth.attribution_model.fitting import FitSettings
from troth.attribution_model.losses import DualMask
from troth.core import catalog
from troth.core.errors import NoHeadError, TrothError
from troth.core.types import Score
from troth.data import Data, load_data
from troth.data._classes import matches
from troth.metrics import Metric, Summary
from troth.store.cells import Cell, CellOutput, Plan
from troth.store.specs import ModelSpec, Spec
from troth.store.store import Store
from troth.store.tables import table_to_scores
from troth.studies import Setting
from troth.studies.aml._paper import DRAWN, METRICS
from troth.sweep.context import Context
from troth.sweep.crossing import cross
from troth.training import train as training
from troth.verbs import fit as attributive_masking
from troth.verbs import methods

if TYPE_CHECKING:
    from troth.studies.aml import Aml


@dataclass(frozen=True, kw_only=True)
class ClassifierSpec(Spec):
    kind = "classifier"
    runner = "troth.studies.aml._experiment:train_classifier"

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
    runner = "troth.studies.aml._experiment:fit_attribution_models"

    data: str
    backbone: str | None
    metrics: Sequence[str]
    recipe: str  # the variant of the loss
    without: Sequence[str]
    form: Mapping[str, Any]
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class LossVariant:
    """A row of the ablation: what is left out of the loss, or put in a term's place."""

    name: str  # behind pAML and fAML
    without: tuple[str, ...] = ()
    form: DualMask = field(default_factory=DualMask)


VARIANTS = (
    LossVariant(""),
    LossVariant("Xpred", without=("prediction",)),
    LossVariant("Xinv", without=("inverse",)),
    LossVariant(" L_inv = p", form=DualMask(inverse_form="probability")),
    LossVariant(" L_inv = −entropy", form=DualMask(inverse_form="negative_entropy")),
    LossVariant(" L_a = L1", form=DualMask(sparsity_form="l1")),
)


@dataclass(frozen=True, eq=False)
class MethodResult:
    """A method by a metric over the examples, each the mean of its seeds, and the value of every seed alone."""

    summary: Summary
    by_seed: Mapping[int, float]

    @property
    def spread(self) -> float | None:
        """The standard deviation over seeds; None for one seed."""
        return self.summary.spread if len(self.by_seed) > 1 else None


MethodResults = Mapping[tuple[str, str], MethodResult]  # by method and judge


Explainers = Mapping[str, Mapping[int, str]]  # of each seed, by method


@dataclass(eq=False)
class AmlExperiment:
    """What is planned for one data set, step by step: a model, attribution models, explanations and scores."""

    study: Aml
    setting: Setting
    name: str
    plan: Plan
    fits: dict[tuple[str, int], Cell] = field(default_factory=dict)  # by variant of the loss and seed
    scores: dict[tuple[str, str, int], Cell] = field(default_factory=dict)  # by method, judge and seed
    notes: list[str] = field(default_factory=list)  # what is left out, and why

    @cached_property
    def classifier(self) -> Cell:
        """The training of a model for data that the base has no classes for; all seeds explain the same model."""
        study = self.study
        return ClassifierSpec(
            base=self.setting.base or "embedded", data=self.name, epochs=study.classifier_epochs,
            batch_size=study.classifier_batch, learning_rate=study.classifier_learning_rate,
            limit=study.classifier_limit, seed=self.setting.seeds[0],
        ).cell()  # fmt: skip

    @cached_property
    def model(self) -> ModelSpec:
        """The explained model."""
        found = self._find_model()
        assert found is not None
        return found

    def has_model(self) -> bool:
        """Whether there is a model to be explained; it is loaded once."""
        found = self._find_model()
        if found is not None:
            self.model = found
        return found is not None

    def _find_model(self) -> ModelSpec | None:
        """The base, or the model that `classifier` trains; None where that is not trained yet."""
        setting, name = self.setting, self.name
        base, labels = setting.base or "embedded", load_data(name, limit=1).labels
        try:
            options = setting.model_options
            specs = setting.context.model_spec(base, options)
            classes = setting.context.model(specs).labels
            if not labels or matches(labels, classes):
                return specs
            if options and len(classes) == len(labels) and "labels" not in options:
                # Class words that are not names of classes are in the order of the data's.
                return setting.context.model_spec(base, {**options, "labels": list(labels)})
            if options:
                raise TrothError(
                    f"the prompt has {len(classes)} class words ({', '.join(classes)}), but {name} has {len(labels)} "
                    f"classes ({', '.join(labels)}); give a word for each, in this order: --class-words"
                )
        except NoHeadError:
            pass  # one is trained
        if not Store(setting.out).has(self.classifier.name):
            return None
        setting.context.store = setting.out.absolute()
        return setting.context.model_spec(f"cell:{self.classifier.name}")

    def add_fits(self, variants: Sequence[LossVariant]) -> None:
        """The attribution models of each variant of the loss and each seed."""
        study = self.study
        for variant in variants:
            # The whole loss is fitted for all five metrics, once; the ablation shows two.
            metrics = METRICS.values() if variant == VARIANTS[0] else (METRICS["suff"], METRICS["comp"])
            for seed in self.setting.seeds:
                settings = FitSettings(
                    examples=study.fit_examples, validation=study.validation, epochs=study.fit_epochs,
                    learning_rate=study.learning_rate, trials=study.trials, trial_examples=study.trial_examples,
                    trial_epochs=study.trial_epochs, trials_per_metric=study.trials_per_metric, search=study.search,
                    variant=study.variant, together=study.together, seed=seed,
                )  # fmt: skip
                spec = AttributionModelsSpec(
                    **vars(self.model), data=self.name, backbone=study.backbone, metrics=tuple(metrics),
                    recipe=variant.name or "whole loss", without=variant.without, form=asdict(variant.form),
                    settings=asdict(settings),
                )  # fmt: skip
                self.fits[variant.name, seed] = self.plan.add(spec.cell())

    def attributive(self, metric: str) -> dict[str, dict[int, str]]:
        """pAML and fAML of every variant of the loss, by the attribution models that a metric has chosen."""
        found: dict[str, dict[int, str]] = {}
        for (variant, seed), cell in self.fits.items():
            folder = str(self.setting.out / "files" / cell.name / METRICS[metric])
            spec = f"attributive_masking(checkpoint={folder!r}"
            found.setdefault(f"fAML{variant}", {})[seed] = f"{spec}, steps={self.study.steps})"
            found.setdefault(f"pAML{variant}", {})[seed] = f"{spec})"
        return found

    def baselines(self, specs: Mapping[str, str]) -> dict[str, dict[int, str]]:
        """Other methods; one that draws nothing gives every seed the same and is asked once."""
        seeds = self.setting.seeds
        return {name: dict.fromkeys(seeds if name in DRAWN else seeds[:1], spec) for name, spec in specs.items()}

    def add_scores(self, data: Data, explainers: Explainers, judges: Sequence[str]) -> None:
        """Explanations of some methods, and what each judge says of them."""
        for method, by_seed in explainers.items():
            for seed, spec in by_seed.items():
                asked = replace(methods.method(spec), made_in_run=True)
                plan = cross(self.setting.context, [self.model], [data], [asked], judges, (seed,), units="token")
                self.plan.cells |= plan.cells
                self.plan.tables |= plan.tables
                self.plan.about |= plan.about
                for judge, cell in zip(judges, plan.of("metric"), strict=True):
                    self.scores[method, judge, seed] = cell

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(method for method, _, _ in self.scores))

    def results(self, store: Store) -> tuple[MethodResults, dict[str, str]]:
        """The results, and the methods that failed, with the reason."""
        scores: dict[tuple[str, str], dict[int, list[Score]]] = {}
        failed = {}
        for (method, judge, seed), cell in self.scores.items():
            if store.has(cell.name):
                scores.setdefault((method, judge), {})[seed] = table_to_scores(store.table(cell.name))
            elif failure := store.failure(cell.name) or store.failure(cell.parents[0]):
                failed[method] = failure.error
        return {key: reduced(catalog.build("metrics", key[1]), by_seed) for key, by_seed in scores.items()}, failed


def reduced(judge: Metric, by_seed: Mapping[int, Sequence[Score]]) -> MethodResult:
    """Seeds are averaged within each example first, so the interval is over examples, not over repetitions of them."""
    values = {seed: judge.summarize(scores).value for seed, scores in by_seed.items()}
    return MethodResult(judge.summarize(*by_seed.values()), values)


def train_classifier(cell: Cell, parents: Sequence[pa.Table], context: Context) -> CellOutput:
    """A plainly fine-tuned model folder; the row says how good it is."""
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
    """A folder with an attribution model for each metric; a row for each, with the weights of its losses."""
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
    """Memory of a GPU that a training needed and nobody uses any more; other processes may wait for it."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
