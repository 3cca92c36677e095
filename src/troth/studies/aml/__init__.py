"""AML (Barkan et al., 2024): compares an attribution model with other explainers by five metrics, leaves out its losses
one by one, and measures agreement with humans and runtime.

Seeds are those of explaining: each draws its own sample, weights of the losses and attribution models, and repeats the
methods that draw random numbers (LIME, SHAP, random). The explained model and the test examples are the same for all
seeds.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from troth.attribution_model.model import Variant
from troth.attribution_model.start import FitSettings, Sampler
from troth.core import catalog
from troth.core.errors import TrothError, unknown
from troth.data import Data
from troth.data._classes import without_labels
from troth.store.cells import Plan
from troth.studies import Section, Setting
from troth.studies._results import Results
from troth.studies._trained_study import PlannedStudy
from troth.studies.aml._experiment import BASELINES, LONG, VARIANTS, AmlExperiment, tested
from troth.studies.aml._sections import SECTIONS, judges_of
from troth.studies.aml._works import PROBES, effort, passes_a_text
from troth.training import bases
from troth.training.examples import load_labeled

_HUMAN = ("DCMP", "SIG", "random")
_EVERY = ("main", "examples")  # parts that are run for every data set; others only for the first
_ON_THE_SPOT = ("runtime", "examples")  # parts that store nothing but attribution models


@dataclass(frozen=True)
class Aml(PlannedStudy[AmlExperiment]):
    parts: ClassVar[Mapping[str, str]] = {
        "main": "methods by five metrics (tables 1 and 2)",
        "ablation": "the losses, left out or in another form (table 4)",
        "human": "agreement with human rationales (table 3)",
        "runtime": "seconds per example (table 5)",
        "examples": "texts with the three tokens that each method ranks first (table 6)",
    }
    takes_prompt: ClassVar[bool] = True
    probes: ClassVar[Mapping[str, str]] = PROBES

    examples: int = 100  # test examples of each data set; --limit overrides it
    methods: tuple[str, ...] = ()  # the baselines, by the paper's names; all if empty
    steps: int = 10  # of fAML
    fit_examples: int = 1000
    fit_epochs: float = 10
    validation: int = 200
    learning_rate: float = 4e-5
    trials: int = 30
    trial_examples: int = 450
    trial_epochs: float = 2
    trials_per_metric: bool = False  # as in the paper: a search for each metric
    search: Sampler = "auto"
    together: int | None = 1  # the most attribution models trained side by side on a GPU; None = what fits into memory
    backbone: str | None = None  # of the attribution model: a folder, "explained", or by default the pretrained encoder
    variant: Variant = "paper"  # released: starts from the explained encoder, label encoding divided
    classifier_epochs: int = 2  # of a model that is first trained for data with other classes
    classifier_batch: int = 32
    classifier_learning_rate: float = 2e-5
    classifier_limit: int | None = 20_000
    beside: str = "BERT"  # the column of the paper's tables that is shown
    human: str = "eraser_movies"
    timed: int = 10  # examples of the runtime table
    llm: str | None = None  # an explainer that asks a language model for a ranking, such as "llm_ranking(model=…)"

    def __post_init__(self) -> None:
        for method in self.methods:
            if method not in BASELINES:
                raise unknown("method of this study", method, BASELINES)

    def names(self, setting: Setting) -> tuple[str, ...]:
        """The data sets."""
        return setting.data or ("sst2",)

    def experiments(self, setting: Setting, plan: Plan, part: str = "") -> list[AmlExperiment]:
        names = self.names(setting)
        return [AmlExperiment(self, setting, name, plan) for name in (names if part in _EVERY else names[:1])]

    def plan(self, part: str, setting: Setting) -> Plan:
        """All cells of a part; a model that has to be trained first is represented by an untrained one."""
        plan = Plan(probes=self.probes)
        count = Counter({"trainings": 0, "forward": 0, "backward": 0})
        for experiment in self.experiments(setting, plan, part):
            if not experiment.has_model():
                plan.add(experiment.classifier)
                labeled = load_labeled(experiment.name, limit=2_000)
                built = bases.build(setting.base or "embedded")
                untrained = built.build(labeled.training.examples, labeled.labels, setting.seeds[0], None)
                experiment.model = setting.context.model_spec(untrained)
            self.add_cells(part, experiment)
            for cell in experiment.fits.values():
                fit = effort(FitSettings(**cell.specs["settings"]), cell.specs["metrics"])
                count.update(trainings=fit.trainings, forward=fit.forward, backward=fit.backward)
            self.add_scores(part, experiment)
        plan.about["fits"] = dict(count)
        return plan

    def sections(self, part: str, setting: Setting) -> Iterator[Section]:
        # One data set after the other, so that the first results are available early.
        for name in self.names(setting) if part in _EVERY else [None]:
            yield from super().sections(part, setting if name is None else replace(setting, data=(name,)))

    def chosen(self, experiments: list[AmlExperiment], plan: Plan, setting: Setting) -> list[AmlExperiment]:
        untrained = [experiment for experiment in experiments if not experiment.has_model()]
        for experiment in untrained:
            plan.add(experiment.classifier)
        if untrained and (failed := setting.carry_out(plan)[1].failed):
            raise TrothError(failed[0].error)
        return experiments

    def add_cells(self, part: str, experiment: AmlExperiment) -> None:
        experiment.add_fits(VARIANTS if part == "ablation" else VARIANTS[:1])

    def add_later(self, part: str, experiment: AmlExperiment, results: Results) -> None:
        for cell in experiment.fits.values():
            if (failure := results.store.failure(cell.name)) is not None and not results.store.has(cell.name):
                raise TrothError(failure.error)
        self.add_scores(part, experiment)

    def add_scores(self, part: str, experiment: AmlExperiment) -> None:
        """Adds the explanations and scores of a part."""
        if part in _ON_THE_SPOT:
            return
        data, others = self.tested(part, experiment), {}
        if part == "human":
            others = {method: spec for method, spec in self.methods_of_paper().items() if method in _HUMAN}
        elif part == "main":
            others = self._affordable(experiment, data)
        for short, judges in judges_of(part).items():
            experiment.add_scores(data, experiment.attributive(short) | experiment.baselines(others), judges)

    def tables(self, part: str, experiments: Sequence[AmlExperiment], results: Results) -> Iterator[Section]:
        return (SECTIONS[part](experiment, results) for experiment in experiments)

    def tested(self, part: str, experiment: AmlExperiment) -> Data:
        """The test examples of a part."""
        count = experiment.setting.limit or self.examples
        # For `human`, the model may have other classes than the annotated texts.
        return without_labels(tested(self.human, count)) if part == "human" else tested(experiment.name, count)

    def methods_of_paper(self) -> dict[str, str]:
        """The paper's other methods, as explainers."""
        chosen = {
            name: spec for name, spec in BASELINES.items() if not self.methods or name in (*self.methods, "random")
        }
        return chosen | ({} if self.llm is None else {"LLM": self.llm})

    def _affordable(self, experiment: AmlExperiment, data: Data) -> dict[str, str]:
        """The baselines; as in the paper, without Solvex on long texts, unless it is named."""
        chosen, model = self.methods_of_paper(), experiment.setting.context.model(experiment.model)
        lengths = [encoding.n_units for encoding in model.encode(data.examples, "token")]
        if "SLVX" not in chosen or "SLVX" in self.methods or np.mean(lengths) <= LONG:
            return chosen
        passes = passes_a_text(catalog.build("explainers", chosen.pop("SLVX")), lengths)
        words = f"SLVX is left out, as in the paper: it would take about {passes:,.0f} passes per text here."
        experiment.notes.append(f"{words} methods=('SLVX', …) runs it all the same.")
        return chosen
