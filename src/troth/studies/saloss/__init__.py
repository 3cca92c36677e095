"""SaLoss (Chrysostomou & Aletras, 2021): are explanations more faithful if attention is trained to follow word
salience?

Covers Tables 1 to 8 and Figure 1, by default with the paper's settings (10 epochs, batches of 8, λ of table 1);
`weight=search` searches for λ. Attributions explain the predicted class's probability, token by token; rationales
consist of words.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from troth.core.errors import TrothError, unknown
from troth.store.cells import Plan
from troth.studies import Section, Setting
from troth.studies._results import Results
from troth.studies._trained_study import StudyData, TrainedStudy
from troth.studies.saloss import _guided, _words
from troth.studies.saloss._experiment import BASES, FLIPS, METHODS, RATIOS, SALIENCES, SUPPORTS, SalossExperiment
from troth.verbs.fresh import require


@dataclass(frozen=True)
class Saloss(TrainedStudy[SalossExperiment]):
    parts: ClassVar[Mapping[str, str]] = {
        "data": "Table 5: the data sets",
        "performance": "Tables 1 and 6: macro-F1 of plain and salience-guided models, and how they were trained",
        "decision_flip": "Table 2: how much of the text must go before the prediction flips",
        "fresh": "Tables 3 and 7: classifiers trained on rationales alone",
        "examples": "Table 4: rationales of both models",
        "saliences": "Table 8: the same with other saliences",
        "part_of_speech": "Figure 1: importance by part of speech",
        "weights": "Not in the paper: what each λ does to attention, macro-F1 and flips",
    }
    paper: ClassVar[str] = "saloss"
    default_data: ClassVar[tuple[str, ...]] = ("sst", "ag_news")

    weight: float | Literal["paper", "search"] = "paper"  # λ
    variant: Literal["paper", "released"] = "paper"  # of the loss
    flips: tuple[str, ...] = ("paper", "released")  # how tokens are erased until the prediction flips; one table each
    epochs: int = 0  # 0: the paper's, as for the next three
    batch_size: int = 0
    learning_rate: float = 0.0
    ratio: float = 0.0  # length of rationales
    thresholders: tuple[str, ...] = ("top_k", "contiguous")
    examples: int = 0  # test examples; 0: all
    weights: tuple[float, ...] = ()  # values of λ to compare in the last part, a training each
    tagger: str | _words.Tagger = ""  # spacy:PIPELINE, package.module:function, or the function

    def __post_init__(self) -> None:
        for way in self.flips:
            if way not in FLIPS:
                raise unknown("way to flip", way, FLIPS)
        for thresholder in self.thresholders:
            require(self.ratio or 1.0, thresholder)
        for weight in (*([] if isinstance(self.weight, str) else [self.weight]), *self.weights):
            if weight < 0:
                raise TrothError(f"saloss: weight (λ) must be 0 or more, not {weight}")

    def experiment(self, data: StudyData, plan: Plan, setting: Setting) -> SalossExperiment:
        base = setting.base or BASES.get(data.name, "bert-base-uncased")
        weight = None if isinstance(self.weight, str) else float(self.weight)
        ratio = self.ratio or RATIOS.get(data.name, 0.2)
        common = (data, base, plan, setting.seeds, self.changed, self.paper)
        return SalossExperiment(*common, weight, self.variant, ratio)

    def plan(self, part: str, setting: Setting) -> Plan | None:
        return None if part == "data" else super().plan(part, setting)

    def sections(self, part: str, setting: Setting) -> Iterator[Section]:
        if part == "data":
            yield _guided.data(self.data_sets(setting))
        else:
            yield from super().sections(part, setting)

    def chosen(self, experiments: list[SalossExperiment], plan: Plan, setting: Setting) -> list[SalossExperiment]:
        if self.weight != "search":
            return experiments
        for experiment in experiments:
            experiment.search()
        results = Results(setting.carry_out(plan)[0])
        results.troubles(plan)
        return [experiment.with_best_weight(results) for experiment in experiments]

    def tables(self, part: str, experiments: Sequence[SalossExperiment], results: Results) -> Iterator[Section]:
        if part == "performance":
            yield _guided.performance(experiments, results)
            yield _guided.settings(experiments, results)
        elif part == "fresh":
            for thresholder in self.thresholders:
                yield _guided.fresh(thresholder, experiments, results)
        for experiment in experiments:
            if part in ("decision_flip", "saliences"):
                table = _guided.flips if part == "decision_flip" else _guided.saliences
                yield from (table(experiment, results, way) for way in self.flips)
            elif part == "examples":
                yield _words.examples(experiment, results)
            elif part == "part_of_speech":
                yield _words.parts_of_speech(experiment, results, self.tagger)
            elif part == "weights":
                yield _guided.by_weight(experiment, results, self.weights)

    def add_cells(self, part: str, experiment: SalossExperiment) -> None:
        if self.weight == "search" and experiment.weight is None:
            experiment.search()
        for seed in experiment.seeds:
            if part == "performance":
                for source in ("plain", "text_rank"):
                    experiment.model(source, seed)
            elif part in ("decision_flip", "saliences"):
                sources = ("plain", "text_rank") if part == "decision_flip" else SALIENCES
                for way in self.flips:
                    for source, method in itertools.product(sources, METHODS):
                        experiment.flips(source, method, seed, way)
                    experiment.flips("plain", "random", seed, way)
            elif part == "fresh":
                for thresholder, (source, explainer) in itertools.product(self.thresholders, SUPPORTS.values()):
                    experiment.fresh(source, explainer, thresholder, seed)
            elif part == "weights":
                _guided.add_weights(experiment, seed, self.weights)
            else:
                for source in ("plain", "text_rank"):
                    experiment.words(source, seed)
