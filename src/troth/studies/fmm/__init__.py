"""Faithfulness measurable models (Madsen et al., 2024): does masked fine-tuning put masked inputs in distribution, so
that masking what an explanation names measures its faithfulness?

Covers Figures 2 to 5, 8 to 11 and 16, and Tables 1, 3, 6 to 9 and 11. Models are trained, explained, measured and
checked as one chain of stored cells; an input is explained once at each step, and then both measured and checked. Every
model is checked against the same held-out texts, whole, half masked and all masked, to find out which part of the
difference between plain and masked models remains with equal references. A model less than ten points better than the
majority class has not converged and has no RACU. Part in_distribution needs the whole chain, so running it first leaves
little to the others.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from troth.core import catalog
from troth.core.errors import TrothError, unknown
from troth.metrics.recursive_erasure import RecursiveErasure
from troth.store.cells import Plan
from troth.studies import Section, Setting
from troth.studies._results import Results
from troth.studies._trained_study import StudyData, TrainedStudy, load
from troth.studies.fmm._experiment import MEASURES, RANDOM, TRAIN, TRAININGS, VALIDATE, FmmExperiment, strategy
from troth.studies.fmm._sections import ablation, faithfulness, in_distribution, performance, wall_time
from troth.training import presets
from troth.training.examples import entry_of, load_labeled, splits_of


@dataclass(frozen=True)
class Fmm(TrainedStudy[FmmExperiment]):
    parts: ClassVar[Mapping[str, str]] = {
        "performance": "Figures 2, 3 and 16, Table 3: performance by training, masking ratio and epoch",
        "in_distribution": "Figure 4: p-values of masked inputs by explainer, training and references",
        "faithfulness": "Figure 5, Tables 1 and 11: ACU and RACU by explainer",
        "ablation": "Figures 8 to 11: training by validation strategy",
        "wall_time": "Tables 6 to 9: wall times",
    }
    paper: ClassVar[str] = "fmm"
    default_data: ClassVar[tuple[str, ...]] = ("sst2", "babi1")
    probes: ClassVar[Mapping[str, str]] = dict.fromkeys(("training", "history", "erased_check", "summary"), "")

    explainers: tuple[str, ...] = tuple(spec for _, _, spec in MEASURES.values())
    # Trainings that are explained; the others are only masked at random.
    explained: tuple[str, ...] = ("plain", "masked")
    step: float = 0.1
    epochs: int = 0  # 0: the paper's, as for the following
    batch_size: int = 0
    learning_rate: float = 0.0
    examples: int = 0  # test examples to explain; 0: all
    beam_examples: int = 0  # of those, examples for beam_search; 0: all

    def __post_init__(self) -> None:
        for explainer in self.explainers:
            catalog.build("explainers", explainer)
        for training in self.explained:
            if training not in TRAININGS:
                raise unknown("training", training, TRAININGS)
        if min(self.examples, self.beam_examples) < 0:
            raise TrothError("fmm: examples and beam_examples must be 0 (all) or more")
        RecursiveErasure(step=self.step)

    def load(self, name: str, limit: int | None) -> StudyData:
        """Where the paper holds out a fifth of train, the public validation set is its test set."""
        data = load(name, like="fmm", limit=limit)
        both = {"validation", "test"} <= set(splits_of(name, entry_of(name)) or ())
        if not both or presets.held_out("fmm", name) is None:
            return data
        public = load_labeled(name, hold_out=None, limit=limit).validation
        test = replace(public, name=data.name, labels=data.labels)
        return replace(data, splits={**data.splits, "test": test})

    def experiment(self, data: StudyData, plan: Plan, setting: Setting) -> FmmExperiment:
        # The texts that are explained, if not the whole test set.
        splits, texts = dict(data.splits), data.splits["test"]
        for split, count in (("explained", self.examples), ("searched", self.beam_examples)):
            if 0 < count < len(texts):
                texts = splits[split] = texts.limit(count, seed=0)
        base, texts_of = setting.base or "roberta-base", replace(data, splits=splits)
        return FmmExperiment(texts_of, base, plan, setting.seeds, self.changed, self.paper, self.step)

    def add_cells(self, part: str, experiment: FmmExperiment) -> None:
        recipes = list(TRAININGS.values())
        if part == "ablation":
            recipes = [strategy(train, validate) for train in TRAIN for validate in VALIDATE]
        for recipe, seed in itertools.product(recipes, experiment.seeds):
            experiment.history(recipe, seed)
            experiment.erased(recipe, RANDOM, seed, whole=True)
        if part in ("performance", "ablation"):
            return
        for training, explainers in self._explainers(part).items():
            for explainer, seed in itertools.product(explainers, experiment.seeds):
                experiment.erased(TRAININGS[training], explainer, seed)
                if part != "faithfulness":
                    experiment.check(TRAININGS[training], explainer, seed)

    def add_later(self, part: str, experiment: FmmExperiment, results: Results) -> None:
        if part != "faithfulness":
            return
        for training, explainers in self._explainers(part).items():
            recipe = TRAININGS[training]
            converged = experiment.converged(results, recipe)
            for explainer in explainers:
                erased = [experiment.erased(recipe, explainer, seed) for seed in converged]
                if erased and explainer != RANDOM and all(results.store.has(cell.name) for cell in erased):
                    experiment.summary(recipe, explainer, converged)

    def tables(self, part: str, experiments: Sequence[FmmExperiment], results: Results) -> Iterator[Section]:
        if part == "performance":
            return performance(experiments, results)
        if part == "ablation":
            return ablation(experiments, results)
        by_explainer = {"in_distribution": in_distribution, "faithfulness": faithfulness, "wall_time": wall_time}
        return by_explainer[part](experiments, results, self._explainers(part))

    def _explainers(self, part: str) -> dict[str, tuple[str, ...]]:
        """The explainers of each training: all, or only random order for one that is not explained."""
        chosen = {training: self.explainers for training in TRAININGS if training in self.explained}
        if part == "in_distribution":
            return {training: chosen.get(training, (RANDOM,)) for training in TRAININGS}
        return chosen
