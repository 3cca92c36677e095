"""One data set of the AML study: the explained model, its attribution models, and the scores of every explainer; also
the paper's methods, metrics and test splits under our names, and its numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from troth.attribution_model.losses import DualMask
from troth.attribution_model.start import FitSettings
from troth.core import catalog
from troth.core.errors import NoHeadError, TrothError
from troth.core.types import Score
from troth.data import Data, load_data
from troth.data._classes import order_of
from troth.metrics import Metric, Summary
from troth.seeds import over_seeds
from troth.store.cells import Cell, Plan
from troth.store.specs import ModelSpec
from troth.store.store import Store
from troth.store.tables import table_to_scores
from troth.studies import Setting, published
from troth.studies.aml._works import AttributionModelsSpec, ClassifierSpec
from troth.sweep.crossing import cross
from troth.training.examples import entry_of, splits_of
from troth.verbs import methods

if TYPE_CHECKING:
    from troth.studies.aml import Aml

# The paper's short names in the order of its tables; as there, IG and SIG explain the largest logit over its L2 norm.
_IG = "baseline='mask', rule='gauss_legendre', of='largest_logit', normalize=True"
BASELINES: Mapping[str, str] = {
    "SIG": "sequential_integrated_gradients(steps=50, of='largest_logit', normalize=True)",
    "ALTI": "alti",
    "DCMP": "decomp_x",
    "SLVX": "beam_search(preset='solvex')",
    "LIFT": "deep_lift",
    "GLOB": "glob_enc",
    "SHAP": "gradient_shap",
    "GXI": "input_x_gradient",
    "IG": f"integrated_gradients(steps=50, {_IG})",
    "LIME": "lime",
    "random": "random",
}
LONG = 60  # tokens; as in the paper, Solvex is left out on longer texts
DRAWN = ("SHAP", "LIME", "random")  # the baselines that depend on the seed
METRICS: Mapping[str, str] = {
    "suff": "sufficiency",
    "lo": "log_odds",
    "comp": "comprehensiveness",
    "aopc_suff": "aopc_sufficiency",
    "aopc_comp": "aopc_comprehensiveness",
}
RELEASED: Mapping[str, str] = {  # as the released code computes them, shown next to the paper's definition
    "aopc_suff": "aopc_sufficiency(variant='released')",
    "aopc_comp": "aopc_comprehensiveness(variant='released')",
}
# Table 6. SST-2's are in neither of its labeled splits; the first of EMR's is a film review of Rotten Tomatoes.
EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "SST2": (
        "a modest pleasure that accomplishes its goals with ease and confidence .",
        "finds a way to tell a simple story , perhaps the simplest story of all , in a way that seems compelling and "
        "even original .",
        "a grim , flat and boring werewolf movie that refuses to develop an energy level .",
        "there 's something fundamental missing from this story : something or someone to care about .",
    ),
    "EMR": (
        "hawke draws out the best from his large cast in beautifully articulated portrayals that are subtle and so "
        "expressive they can sustain the poetic flights in burdette 's dialogue .",
        "i was feeling really troubled and down over what my dad said",
    ),
}
_DATA = {"sst2": "SST2", "sst": "SST2", "rotten_tomatoes": "RTN", "imdb": "IMDB", "emotion": "EMR"}


@dataclass(frozen=True)
class LossVariant:
    """A row of the ablation: which term of the loss is left out or replaced."""

    name: str  # appended to pAML and fAML
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
    """A method's scores by a metric, averaged over seeds for each example, and the mean of every single seed."""

    summary: Summary
    by_seed: Mapping[int, float]

    @property
    def spread(self) -> float | None:
        """The standard deviation over seeds; None for one seed."""
        return self.summary.spread if len(self.by_seed) > 1 else None


MethodResults = Mapping[tuple[str, str], MethodResult]  # by method and metric


Explainers = Mapping[str, Mapping[int, str]]  # for each seed, by method


@dataclass(eq=False)
class AmlExperiment:
    """The plan for one data set, step by step: a model, attribution models, explanations and scores."""

    study: Aml
    setting: Setting
    name: str
    plan: Plan
    fits: dict[tuple[str, int], Cell] = field(default_factory=dict)  # by variant of the loss, and seed
    scores: dict[tuple[str, str, int], Cell] = field(default_factory=dict)  # by method, metric and seed
    notes: list[str] = field(default_factory=list)  # what is left out, and why

    @cached_property
    def classifier(self) -> Cell:
        """Trains a model for data with other classes than the base; all seeds explain the same model."""
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
        """Whether the explained model exists; it is loaded once."""
        found = self._find_model()
        if found is not None:
            self.model = found
        return found is not None

    def _find_model(self) -> ModelSpec | None:
        """The base, or the model that `classifier` trains; None if that is not trained yet."""
        setting, name = self.setting, self.name
        base, labels = setting.base or "embedded", load_data(name, limit=1).labels
        try:
            options = setting.model_options
            specs = setting.context.model_spec(base, options)
            classes = setting.context.model(specs).labels
            if not labels or order_of(labels, classes) is not None:
                return specs
            if options and len(classes) == len(labels) and "labels" not in options:
                # Class words that are not names of classes are in the order of the data's classes.
                return setting.context.model_spec(base, {**options, "labels": list(labels)})
            if options:
                raise TrothError(
                    f"the prompt has {len(classes)} class words ({', '.join(classes)}), but {name} has {len(labels)} "
                    f"classes ({', '.join(labels)}); give a word for each, in this order: --class-words"
                )
        except NoHeadError:
            pass  # a model is trained
        if not Store(setting.out).has(self.classifier.name):
            return None
        setting.context.store = setting.out.absolute()
        return setting.context.model_spec(f"cell:{self.classifier.name}")

    def add_fits(self, variants: Sequence[LossVariant]) -> None:
        """The attribution models for each variant of the loss and each seed."""
        study = self.study
        for variant in variants:
            # The complete loss is fitted once for all five metrics; the ablation shows two.
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
        """pAML and fAML for every variant of the loss, with the attribution models that a metric selected."""
        found: dict[str, dict[int, str]] = {}
        for (variant, seed), cell in self.fits.items():
            folder = str(self.setting.out / "files" / cell.name / METRICS[metric])
            spec = f"attributive_masking(checkpoint={folder!r}"
            found.setdefault(f"fAML{variant}", {})[seed] = f"{spec}, steps={self.study.steps})"
            found.setdefault(f"pAML{variant}", {})[seed] = f"{spec})"
        return found

    def baselines(self, specs: Mapping[str, str]) -> dict[str, dict[int, str]]:
        """The other methods; one without random numbers is computed once for all seeds."""
        seeds = self.setting.seeds
        return {name: dict.fromkeys(seeds if name in DRAWN else seeds[:1], spec) for name, spec in specs.items()}

    def add_scores(self, data: Data, explainers: Explainers, judges: Sequence[str]) -> None:
        """Adds the explanations of some methods and their scores by each metric."""
        for method, by_seed in explainers.items():
            for seed, spec in by_seed.items():
                asked = replace(methods.EXPLAINERS.method(spec), made_in_run=True)
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
        """The results, and the methods that failed with the reason."""
        scores: dict[tuple[str, str], dict[int, list[Score]]] = {}
        failed = {}
        for (method, judge, seed), cell in self.scores.items():
            if store.has(cell.name):
                scores.setdefault((method, judge), {})[seed] = table_to_scores(store.table(cell.name))
            elif failure := store.failure(cell.name) or store.failure(cell.parents[0]):
                failed[method] = failure.error
        return {key: reduced(catalog.build("metrics", key[1]), by_seed) for key, by_seed in scores.items()}, failed


def reduced(judge: Metric, by_seed: Mapping[int, Sequence[Score]]) -> MethodResult:
    """Averages seeds for each example first; the interval treats both seeds and examples as random."""
    values = {seed: judge.summarize(scores).value for seed, scores in by_seed.items()}
    _, low, high = over_seeds([[score.value for score in scores] for scores in by_seed.values()])
    return MethodResult(replace(judge.summarize(*by_seed.values()), low=low, high=high), values)


def solvex(width: int) -> str:
    """Solvex with another beam width."""
    return f"beam_search(width={width}, objective='comp_minus_suff', of='probability', drop_duplicates=False)"


def of_tables(name: str, model: str, method: str, metric: str) -> float | None:
    """A number of table 1 (encoders) or table 2 (decoders)."""
    about = {"dataset": data_of_paper(name), "model": model, "method": method, "metric": metric}
    values = (published.number(table, **about) for table in ("aml_encoder", "aml_decoder"))
    return next((value for value in values if value is not None), None)


def data_of_paper(name: str) -> str:
    """A data set's name in the paper's tables; our own name if it has none."""
    return _DATA.get(Path(name).name, Path(name).name)


def tested(name: str, count: int | None) -> Data:
    """The first examples of the paper's test data: the test split, or validation if there is none (SST-2)."""
    splits = splits_of(name, entry_of(name)) or ()
    return load_data(name, split="test" if "test" in splits else None, limit=count)
