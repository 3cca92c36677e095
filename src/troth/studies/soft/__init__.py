"""Soft metrics (Zhao & Aletras, 2023): does fading every token by its score tell real explanations from random ones
better than erasing the top tokens does?

Tables 1 to 6, Figures 2 and 3 and Appendix C. Models are fine-tuned as in the paper by default. Scores are mapped to
[0, 1] by one rule for all attributions (`scores=sigmoid`, as the released code does). Part maps shows what depends on
that rule, part retention what is left when every attribution keeps the same share of the input (Huang & Chan, 2026).
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from troth.core.errors import TrothError
from troth.metrics._soft import ScoreMap
from troth.store.cells import Plan
from troth.studies import Section, Setting
from troth.studies._results import Results
from troth.studies._trained_study import StudyData, TrainedStudy
from troth.studies.soft import _diagnosticity
from troth.studies.soft._diagnosticity import HARD, METRICS, SOFT, SoftExperiment

_VARIANCES = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0)
_FORMS = {"product": "eq. 7", "variance": "eq. 8"}  # of Gaussian noise
_MAPS: tuple[ScoreMap, ...] = ("sigmoid", "min_max", "softmax", "rank")
_RETENTIONS = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Soft(TrainedStudy[SoftExperiment]):
    parts: ClassVar[Mapping[str, str]] = {
        "data": "Tables 1 and 5: the data sets, macro-F1, and how the models were trained",
        "diagnosticity": "Table 6: the share of explanations each metric puts before random ones",
        "averages": "Tables 2 and 3: the same over attributions and over data sets, soft against hard",
        "lengths": "Figures 2 and 3: NS and NC by rationale length",
        "examples": "Table 4: scores of single texts",
        "released": "The released code's rules (ties won, clipped, nudged) next to the paper's",
        "alternatives": "Appendix C: Gaussian noise and attention masks instead of dropped elements",
        "maps": "How the verdict depends on the map from scores to [0, 1]",
        "retention": "Soft metrics when every attribution keeps the same share of the input",
    }
    paper: ClassVar[str] = "soft"
    default_data: ClassVar[tuple[str, ...]] = ("sst", "ag_news")

    scores: ScoreMap = "sigmoid"
    samples: int = 1  # draws per soft score
    epochs: int = 0  # 0: the paper's, as for the following
    batch_size: int = 0
    learning_rate: float = 0.0
    examples: int = 0  # test examples; 0: all

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise TrothError(f"soft: samples must be at least 1, not {self.samples}")

    def experiment(self, data: StudyData, plan: Plan, setting: Setting) -> SoftExperiment:
        base = setting.base or _diagnosticity.PUBLISHED_BASE
        return SoftExperiment(data, base, plan, setting.seeds, self.changed, self.paper)

    def tables(self, part: str, experiments: Sequence[SoftExperiment], results: Results) -> Iterable[Section]:
        if part in _diagnosticity.SECTIONS:
            return _diagnosticity.SECTIONS[part](experiments, results, self._specs(part))
        listed = {(metric, spec): spec for metric, specs in self._specs(part).items() for spec in specs}
        specs = {
            each.name: self._alternatives(each, results) if part == "alternatives" else listed for each in experiments
        }
        return [_diagnosticity.by_spec(part, experiments, results, specs)]

    def spec(self, metric: str, **options: Any) -> str:
        """The specification of a metric in the paper's tables; soft ones have the study's map and number of draws."""
        if metric in SOFT:
            options = {"scores": self.scores, "samples": self.samples, **options}
        name = {**HARD, **SOFT}[metric]
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in options.items())})" if options else name

    def add_cells(self, part: str, experiment: SoftExperiment) -> None:
        for seed in experiment.seeds:
            experiment.train("plain", seed)
        if part == "alternatives":
            noises = itertools.product(SOFT, _FORMS, _VARIANCES)
            specs = [self.spec(metric, masking=_noise(form, variance)) for metric, form, variance in noises]
            replace(experiment, seeds=experiment.seeds[:1]).add_scores(specs, split="validation")
            experiment.add_scores([self.spec(metric) for metric in SOFT])
        elif part != "data":
            experiment.add_scores([spec for specs in self._specs(part).values() for spec in specs])

    def add_later(self, part: str, experiment: SoftExperiment, results: Results) -> None:
        if part == "alternatives":  # the test scores depend on the variance that validation selects
            experiment.add_scores(list(self._alternatives(experiment, results).values()))

    def _specs(self, part: str) -> dict[str, list[str]]:
        """The specifications of each metric that a part reads."""
        usual = {metric: [self.spec(metric)] for metric in METRICS}
        if part == "released":
            soft = {"variant": "released", "at": "embedding_output"}  # where the released code drops elements
            options = {metric: soft if metric in SOFT else {"variant": "released"} for metric in METRICS}
            return {metric: [*specs, self.spec(metric, **options[metric])] for metric, specs in usual.items()}
        if part == "maps":
            return {metric: [self.spec(metric, scores=rule) for rule in _MAPS] for metric in SOFT}
        if part == "retention":
            retained = {metric: [self.spec(metric, retention=share) for share in _RETENTIONS] for metric in SOFT}
            return {metric: [*usual[metric], *specs] for metric, specs in retained.items()}
        return usual

    def _alternatives(self, experiment: SoftExperiment, results: Results) -> dict[tuple[str, str], str]:
        """(metric, perturbation) -> specification, with the variance of noise that has the highest diagnosticity on
        validation.
        """
        first = replace(experiment, seeds=experiment.seeds[:1])
        specs = {}
        for metric in SOFT:
            specs[metric, "dropped elements (the paper's)"] = self.spec(metric)
            for form, equation in _FORMS.items():
                noises = [self.spec(metric, masking=_noise(form, variance)) for variance in _VARIANCES]
                shares = [first.diagnosticity(results, noise, "validation") for noise in noises]
                best = int(np.argmax(np.nan_to_num(shares, nan=-np.inf)))
                specs[metric, f"Gaussian, {equation}, σ² {_VARIANCES[best]}"] = noises[best]
            specs[metric, "attention mask"] = self.spec(metric, masking="attention")
        return specs


def _noise(form: str, variance: float) -> str:
    return f"gaussian(variance={variance}, form={form!r})"
