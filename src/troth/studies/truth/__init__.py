"""Ground truth: which explainers and which metrics find what a model really uses, where that is known?

Shortcuts are planted in a data set (Bastings et al., 2022), models are trained on it, and those that provably use the
shortcut are explained. Explainers are judged by how high they rank the deciding words. Metrics are judged by whether
they rank explanations of one text as the truth does: those of the explainers, and synthetic explanations of known
quality, which are the truth mixed with increasing noise.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from troth.core import catalog
from troth.core.errors import TrothError
from troth.data import Data
from troth.store.cells import Plan
from troth.studies import Section, Setting
from troth.studies._results import Results
from troth.studies._trained_study import StudyData, TrainedStudy, load
from troth.studies.truth import _sections
from troth.studies.truth._experiment import TruthExperiment, plant_in
from troth.studies.truth._shortcuts import SHORTCUTS, shortcut
from troth.training import bases, recipes
from troth.training.bases.bilstm_attention import BilstmAttention

# A shortcut is not learned with the small learning rates that preserve pretrained knowledge.
_FINE_TUNED = {"epochs": 5, "batch_size": 32, "learning_rate": 3e-4}
EXPLAINERS = (
    "random", "gradient", "input_x_gradient", "integrated_gradients", "deep_lift", "attention", "attention_x_gradient",
    "leave_one_out", "lime(samples=200)", "kernel_shap(samples=200)", "text_rank",
)  # fmt: skip
METRICS = (
    "comprehensiveness", "sufficiency", "log_odds", "aopc_comprehensiveness", "aopc_sufficiency",
    "comprehensiveness(masking=mask_token)", "sufficiency(masking=mask_token)",
    "normalized_comprehensiveness", "normalized_sufficiency",
    "soft_comprehensiveness(scores=rank)", "soft_sufficiency(scores=rank)",
    "decision_flip", "deletion", "insertion", "recursive_erasure(recompute=False)",
    "normalized_aopc", "linear_score", "f_fidelity(samples=10)", "infidelity", "monotonicity",
    "importance_correlation", "leave_one_out_correlation",
)  # fmt: skip


@dataclass(frozen=True)
class Truth(TrainedStudy[TruthExperiment]):
    parts: ClassVar[Mapping[str, str]] = {
        "models": "Which models provably use the shortcut they were trained on",
        "explainers": "Where explainers rank the deciding words",
        "metrics": "Which metrics rank explanations as the truth does",
        "in_distribution": "Whether a metric is more often wrong where its erased texts are out of distribution",
    }
    default_data: ClassVar[tuple[str, ...]] = ("reviews",)

    shortcuts: tuple[str, ...] = tuple(SHORTCUTS)
    recipes: tuple[str, ...] = ("plain", "masked")
    explainers: tuple[str, ...] = EXPLAINERS
    metrics: tuple[str, ...] = METRICS
    training: int = 2000  # training texts; data with fewer use each several times
    validation: int = 300
    examples: int = 50  # test examples
    longest: int = 40  # words to which texts are truncated
    incomplete: float = 0.25  # share of the training texts in which a necessary word is missing
    least: float = 0.9  # share of the texts on which a model must follow the shortcut
    epochs: int = 0  # 0: 5 for a pretrained model, else the base's own, as for the next two
    batch_size: int = 0
    learning_rate: float = 0.0

    def __post_init__(self) -> None:
        for name in self.shortcuts:
            shortcut(name)
        for recipe in self.recipes:
            recipes.build(recipe)
        for kind, specs in (("explainers", self.explainers), ("metrics", self.metrics)):
            for spec in specs:
                catalog.build(kind, spec)
        if not 0 < self.least <= 1:
            raise TrothError(f"truth: least must be above 0 and at most 1, not {self.least}")

    def load(self, name: str, limit: int | None) -> StudyData:
        return load(name, limit=limit)

    def experiments(self, setting: Setting, plan: Plan, part: str = "") -> list[TruthExperiment]:
        return [
            self._experiment(source, name, plan, setting)
            for source, name in itertools.product(self.data_sets(setting), self.shortcuts)
        ]

    def _experiment(self, source: StudyData, name: str, plan: Plan, setting: Setting) -> TruthExperiment:
        base = setting.base or "embedded"
        usual = {} if isinstance(bases.build(base), BilstmAttention) else _FINE_TUNED
        changed = {**usual, **{option: value for option, value in self.changed.items() if value}}
        planted, texts = setting.context.once(
            ("planted", source.name, *source.sizes, name, self), partial(self._planted, source, name)
        )
        return TruthExperiment(
            planted, base, plan, setting.seeds, changed, None, source=source.name, shortcut=name, changed_texts=texts,
            explainers=self.explainers, metrics=self.metrics, recipes=self.recipes, least=self.least,
        )  # fmt: skip

    def _planted(self, source: StudyData, name: str) -> tuple[StudyData, Data]:
        return plant_in(
            source, name, training=self.training, validation=self.validation, examples=self.examples,
            longest=self.longest, incomplete=self.incomplete,
        )  # fmt: skip

    def experiment(self, data: StudyData, plan: Plan, setting: Setting) -> TruthExperiment:
        return self._experiment(data, self.shortcuts[0], plan, setting)

    def add_cells(self, part: str, experiment: TruthExperiment) -> None:
        for recipe, seed in itertools.product(self.recipes, experiment.seeds):
            experiment.uses(recipe, seed)

    def add_later(self, part: str, experiment: TruthExperiment, results: Results) -> None:
        for recipe, seed in itertools.product(self.recipes, experiment.seeds):
            if part == "models" or not experiment.is_kept(results, recipe, seed):
                continue
            experiment.explained(recipe, seed)
            for metric in self.metrics if part != "explainers" else ():
                experiment.graded(recipe, seed, metric)
            for masking in experiment.maskings if part == "in_distribution" else ():
                experiment.stamped(recipe, seed, masking)

    def tables(self, part: str, experiments: Sequence[TruthExperiment], results: Results) -> Iterator[Section]:
        rows = _sections.KeptRows(row for experiment in experiments for row in experiment.rows(results))
        return _sections.SECTIONS[part](rows)
