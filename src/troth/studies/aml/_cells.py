"""What the AML study stores: the model that is explained, attribution models, and what every explainer scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from troth.attribution_model.losses import DualMask
from troth.core import catalog
from troth.core.errors import NoHeadError, TrothError
from troth.core.types import Score
from troth.data import Data, load_data
from troth.data._classes import matches
from troth.metrics import Metric, Summary
from troth.store.cells import Cell, Plan
from troth.store.specs import ModelSpec
from troth.store.store import Store
from troth.store.tables import table_to_scores
from troth.studies import Setting, joined
from troth.studies.aml._tables import DRAWN, METRICS
from troth.studies.aml._works import AttributionModelsSpec, ClassifierSpec
from troth.sweep.crossing import cross
from troth.verbs import methods
from troth.verbs.fit import Settings

if TYPE_CHECKING:
    from troth.studies.aml import Aml


@dataclass(frozen=True)
class Variant:
    """A row of the ablation: what is left out of the loss, or put in a term's place."""

    name: str  # behind pAML and fAML
    without: tuple[str, ...] = ()
    form: DualMask = field(default_factory=DualMask)


VARIANTS = (
    Variant(""),
    Variant("Xpred", without=("prediction",)),
    Variant("Xinv", without=("inverse",)),
    Variant(" L_inv = p", form=DualMask(inverse_form="probability")),
    Variant(" L_inv = −entropy", form=DualMask(inverse_form="negative_entropy")),
    Variant(" L_a = L1", form=DualMask(sparsity_form="l1")),
)


@dataclass(frozen=True)
class Wanted:
    """A method that a metric judges, with the explainer of each seed."""

    method: str
    metric: str
    explainers: Mapping[int, str]


@dataclass(frozen=True, eq=False)
class Result:
    """A method by a metric over the examples, each the mean of its seeds, and the value of every seed alone."""

    summary: Summary
    by_seed: Mapping[int, float]

    @property
    def spread(self) -> float | None:
        """The standard deviation over seeds; None for one seed."""
        return self.summary.spread if len(self.by_seed) > 1 else None


Results = Mapping[tuple[str, str], Result]  # by method and judge


def explained(setting: Setting, name: str, classifier: Cell) -> ModelSpec | None:
    """The explained model: the base, or the one that `classifier` trains; None where that is not trained yet."""
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
    if not Store(setting.out).has(classifier.name):
        return None
    setting.context.store = setting.out.absolute()
    return setting.context.model_spec(f"cell:{classifier.name}")


def classifier_for(study: Aml, setting: Setting, name: str) -> Cell:
    """The training of a model for data that the base has no classes for; all seeds explain the same model."""
    return ClassifierSpec(
        base=setting.base or "embedded", data=name, epochs=study.classifier_epochs, batch_size=study.classifier_batch,
        learning_rate=study.classifier_learning_rate, limit=study.classifier_limit, seed=setting.seeds[0],
    ).cell()  # fmt: skip


def ready(
    study: Aml, setting: Setting, name: str, variants: Sequence[Variant] = VARIANTS[:1]
) -> tuple[ModelSpec, dict[tuple[str, int], Cell]]:
    """The explained model and its attribution models, trained where they are not there yet."""
    classifier = classifier_for(study, setting, name)
    model = explained(setting, name, classifier)
    if model is None:
        _carry_out(setting, Plan({classifier.name: classifier}))
        model = explained(setting, name, classifier)
        assert model is not None
    plan, cells = fits(study, setting, model, name, variants)
    _carry_out(setting, plan)
    return model, cells


def _carry_out(setting: Setting, plan: Plan) -> None:
    """Runs a plan of which nothing may fail."""
    _, outcome = setting.carry_out(plan)
    if outcome.failed:
        raise TrothError(outcome.failed[0].error)


def settings_of(study: Aml, seed: int) -> Settings:
    """Of the fit of attribution models."""
    return Settings(
        examples=study.fit_examples, validation=study.validation, epochs=study.fit_epochs,
        learning_rate=study.learning_rate, trials=study.trials, trial_examples=study.trial_examples,
        trial_epochs=study.trial_epochs, trials_per_metric=study.trials_per_metric, search=study.search,
        variant=study.variant, together=study.together, seed=seed,
    )  # fmt: skip


def fits(
    study: Aml, setting: Setting, model: ModelSpec, name: str, variants: Sequence[Variant]
) -> tuple[Plan, dict[tuple[str, int], Cell]]:
    """The cells of the attribution models of each variant of the loss and each seed, and the plan of them."""
    plan, cells = Plan(), {}
    for variant in variants:
        # The whole loss is fitted for all five metrics, once; the ablation shows two.
        metrics = METRICS.values() if variant == VARIANTS[0] else (METRICS["suff"], METRICS["comp"])
        for seed in setting.seeds:
            spec = AttributionModelsSpec(
                **vars(model), data=name, backbone=study.backbone, metrics=tuple(metrics),
                recipe=variant.name or "whole loss", without=variant.without, form=asdict(variant.form),
                settings=asdict(settings_of(study, seed)),
            )  # fmt: skip
            cells[variant.name, seed] = plan.add(spec.cell())
    return plan, cells


def attributive(study: Aml, setting: Setting, cells: Mapping[tuple[str, int], Cell], metric: str) -> list[Wanted]:
    """pAML and fAML of every variant of the loss, by the attribution models that a metric has chosen."""
    wanted: dict[str, dict[int, str]] = {}
    for (variant, seed), cell in cells.items():
        folder = str(setting.out / "files" / cell.name / METRICS[metric])
        spec = f"attributive_masking(checkpoint={folder!r}"
        wanted.setdefault(f"fAML{variant}", {})[seed] = f"{spec}, steps={study.steps})"
        wanted.setdefault(f"pAML{variant}", {})[seed] = f"{spec})"
    return [Wanted(method, metric, explainers) for method, explainers in wanted.items()]


def baselines(setting: Setting, specs: Mapping[str, str], metric: str) -> list[Wanted]:
    """Other methods; one that draws nothing gives every seed the same and is asked once."""
    return [
        Wanted(method, metric, dict.fromkeys(setting.seeds if method in DRAWN else setting.seeds[:1], spec))
        for method, spec in specs.items()
    ]


def measuring(
    setting: Setting, model: ModelSpec, data: Data, wanted: Sequence[Wanted], judges: Mapping[str, Sequence[str]]
) -> tuple[Plan, dict[tuple[str, str, int], Cell]]:
    """The plan of explanations and scores, and the cell of each method, judge and seed."""
    plans, cells = [], {}
    for pair in wanted:
        for seed, spec in pair.explainers.items():
            asked = replace(methods.method(spec), made_in_run=True)
            plan = cross(setting.context, [model], [data], [asked], judges[pair.metric], (seed,), units="token")
            plans.append(plan)
            for judge, cell in zip(judges[pair.metric], plan.of("metric"), strict=True):
                cells[pair.method, judge, seed] = cell
    return joined(plans), cells


def measured(
    setting: Setting, model: ModelSpec, data: Data, wanted: Sequence[Wanted], judges: Mapping[str, Sequence[str]]
) -> tuple[Results, dict[str, str]]:
    """The results, and the methods that failed, with the reason; `judges` are those of each metric of `wanted`."""
    plan, cells = measuring(setting, model, data, wanted, judges)
    store, outcome = setting.carry_out(plan)
    scores: dict[tuple[str, str], dict[int, list[Score]]] = {}
    for (method, judge, seed), cell in cells.items():
        if store.has(cell.name):
            scores.setdefault((method, judge), {})[seed] = table_to_scores(store.table(cell.name))
    results = {key: reduced(catalog.build("metrics", key[1]), by_seed) for key, by_seed in scores.items()}
    names = {_plain(spec): pair.method for pair in wanted for spec in pair.explainers.values()}
    failed = {names.get(str(cell.specs.get("explainer")), cell.kind): cell.error for cell in outcome.failed}
    return results, failed


def reduced(judge: Metric, by_seed: Mapping[int, Sequence[Score]]) -> Result:
    """Seeds are averaged within each example first, so the interval is over examples, not over repetitions of them."""
    values = {seed: judge.summarize(scores).value for seed, scores in by_seed.items()}
    return Result(judge.summarize(*by_seed.values()), values)


def _plain(explainer: str) -> str:
    return catalog.spec(catalog.build("explainers", explainer))
