"""Soft metrics (Zhao & Aletras, 2023): does fading every token by its score tell real explanations from random ones
better than erasing the top tokens does?

Tables 1 to 6, Figures 2 and 3 and Appendix C. Models are fine-tuned as in the paper by default. Scores are mapped to
[0, 1] by one rule for all attributions (`scores=sigmoid`, as the released code does). Part maps shows what depends on
that rule, part retention what is left when every attribution keeps the same share of the input (Huang & Chan, 2026).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from troth.core.errors import TrothError
from troth.metrics._soft import ScoreMap
from troth.store.cells import Plan
from troth.studies import Section, Setting, Study
from troth.studies._trained import Results, Trials, load
from troth.studies.saloss._experiment import without_trainings
from troth.studies.soft import _tables as _soft_tables
from troth.studies.soft._experiment import HARD, METHODS, METRICS, SOFT, Experiment, mean, pairs

_DATA = ("sst", "ag_news")
_VARIANCES = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0)
_FORMS = {"product": "eq. 7", "variance": "eq. 8"}  # of Gaussian noise
_MAPS: tuple[ScoreMap, ...] = ("sigmoid", "min_max", "softmax", "rank")
_RETENTIONS = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Soft(Study):
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

    scores: ScoreMap = "sigmoid"
    samples: int = 1  # draws per soft score
    epochs: int = 0  # 0: the paper's, as for what follows
    batch_size: int = 0
    learning_rate: float = 0.0
    examples: int = 0  # of the test set; 0: all

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise TrothError(f"soft: samples must be at least 1, not {self.samples}")

    def plan(self, part: str, setting: Setting) -> Plan | None:
        plan = Plan()
        for experiment in self._experiments(setting, plan):
            self._add(part, experiment)
        return without_trainings(plan)

    def sections(self, part: str, setting: Setting) -> Iterator[Section]:
        plan = Plan()
        experiments = self._experiments(setting, plan)
        for experiment in experiments:
            self._add(part, experiment)
        results = Results(setting.carry_out(plan)[0])
        if part == "alternatives":  # the test scores wait for the variance that validation chose
            chosen = {experiment.name: self._tuned(experiment, results) for experiment in experiments}
            for experiment in experiments:
                _add_scores(experiment, list(self._alternatives(chosen[experiment.name]).values()))
            results = Results(setting.carry_out(plan)[0])
            yield _soft_tables.alternatives(
                experiments, results, {name: self._alternatives(variances) for name, variances in chosen.items()}
            )
            return
        words = results.troubles(plan)
        for section in _soft_tables.SECTIONS[part](experiments, results, self._specs(part)):
            yield replace(section, words=" ".join(filter(None, [section.words, words])))

    def spec(self, metric: str, **options: Any) -> str:
        """A metric of the paper's tables as its spec, soft ones with the study's map and number of draws."""
        if metric in HARD:
            given = options
        else:
            given = {"scores": self.scores, "samples": self.samples, **options}
        name = {**HARD, **SOFT}[metric]
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in given.items())})" if given else name

    def _experiments(self, setting: Setting, plan: Plan) -> list[Experiment]:
        base = setting.base or "bert-base-uncased"
        changed = {"epochs": self.epochs, "batch_size": self.batch_size, "learning_rate": self.learning_rate}
        experiments = []
        for name in setting.data or _DATA:
            key = ("soft", name, setting.limit, self.examples)
            read = partial(load, name, like="soft", limit=setting.limit, examples=self.examples)
            material = setting.context.once(key, read)
            experiments.append(Experiment(Trials(material, base, plan), setting.seeds, changed))
        return experiments

    def _add(self, part: str, experiment: Experiment) -> None:
        """Every cell a part needs of one data set."""
        for seed in experiment.seeds:
            experiment.model(seed)
        if part == "alternatives":
            validation = [
                self.spec(metric, masking=_noise(form, variance))
                for metric, form, variance in itertools.product(SOFT, _FORMS, _VARIANCES)
            ]
            _add_scores(experiment, validation, split="validation", seeds=experiment.seeds[:1])
            _add_scores(experiment, [self.spec(metric) for metric in SOFT])
        elif part != "data":
            _add_scores(experiment, [spec for specs in self._specs(part).values() for spec in specs])

    def _specs(self, part: str) -> dict[str, list[str]]:
        """The specs of each metric that a part reads."""
        usual = {metric: [self.spec(metric)] for metric in METRICS}
        if part == "lengths":
            return usual
        if part == "released":
            return {metric: [*specs, self.spec(metric, variant="released")] for metric, specs in usual.items()}
        if part == "maps":
            return {metric: [self.spec(metric, scores=rule) for rule in _MAPS] for metric in SOFT}
        if part == "retention":
            return {
                metric: [*usual[metric], *(self.spec(metric, retention=kept) for kept in _RETENTIONS)]
                for metric in SOFT
            }
        return usual

    def _tuned(self, experiment: Experiment, results: Results) -> dict[tuple[str, str], float]:
        """The variance of each (metric, form of noise) with the highest diagnosticity on validation."""
        chosen = {}
        first = Experiment(experiment.trials, experiment.seeds[:1], experiment.changed)
        for metric, form in itertools.product(SOFT, _FORMS):
            means = []
            for variance in _VARIANCES:
                spec = self.spec(metric, masking=_noise(form, variance))
                shares = [pairs(first, results, method, spec, "validation").diagnosticity for method in METHODS]
                means.append(mean(shares))
            chosen[metric, form] = _VARIANCES[int(np.argmax(np.nan_to_num(means, nan=-np.inf)))]
        return chosen

    def _alternatives(self, variances: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], str]:
        """(metric, perturbation) -> spec, each noise with its chosen variance."""
        specs = {}
        for metric in SOFT:
            specs[metric, "dropped elements (the paper's)"] = self.spec(metric)
            for form, equation in _FORMS.items():
                variance = variances[metric, form]
                specs[metric, f"Gaussian, {equation}, σ² {variance}"] = self.spec(
                    metric, masking=_noise(form, variance)
                )
            specs[metric, "attention mask"] = self.spec(metric, masking="attention")
        return specs


def _noise(form: str, variance: float) -> str:
    return f"gaussian(variance={variance}, form={form!r})"


def _add_scores(
    experiment: Experiment, specs: Sequence[str], split: str = "test", seeds: Sequence[int] | None = None
) -> None:
    for seed in experiment.seeds if seeds is None else seeds:
        for method, spec in itertools.product((*METHODS, "random"), specs):
            experiment.scores(method, spec, seed, split)
