"""What the soft-metrics study asks of one data set: which models, which explanations, which scores of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from troth import statistics
from troth.core.types import Score
from troth.metrics import formulas
from troth.metrics._erasing import AOPC_RATIOS
from troth.seeds import mean_over_seeds
from troth.statistics import Floats
from troth.store.cells import Cell
from troth.studies._results import Results
from troth.studies._trained_study import Experiment

PRINTED = {
    "sst": "SST",
    "ag_news": "AG",
    "evidence_inference": "Ev.Inf",
    "multirc": "M.RC",
    "multirc_superglue": "M.RC",
}
# The paper's attributions by the name its tables give them.
METHODS = {
    "Attention": "attention",
    "Scaled attention": "attention_x_gradient",
    "Gradients": "input_x_gradient",
    "IG": "integrated_gradients",
    "Deeplift": "deep_lift",
}
HARD = {"NS": "normalized_sufficiency", "NC": "normalized_comprehensiveness"}
SOFT = {"Soft-NS": "soft_sufficiency", "Soft-NC": "soft_comprehensiveness"}
METRICS = (*HARD, *SOFT)
COUNTERPARTS = {"Soft-NS": "NS", "Soft-NC": "NC"}


@dataclass(frozen=True, eq=False)
class SoftExperiment(Experiment):
    """A plain model per seed, its explanations, and their scores."""

    @property
    def printed(self) -> str:
        """The data set's name in the paper; "" where it has none."""
        return PRINTED.get(self.name, "")

    def scores(self, method: str, metric: str, seed: int, split: str = "test") -> Cell:
        """The scores that a metric's spec gives one method's explanations (or the random ones) of a seed's model."""
        explainer = METHODS.get(method, method)
        return self.score(self.explain(self.train("plain", seed), explainer, split=split), metric)

    def add_scores(self, specs: Sequence[str], split: str = "test") -> None:
        """The scores of every attribution and seed."""
        for seed, method, spec in itertools.product(self.seeds, (*METHODS, "random"), specs):
            self.scores(method, spec, seed, split)

    def pairs(self, results: Results, method: str, metric: str, split: str = "test") -> Pairs:
        """A metric's scores of one method and of random explanations; NaN for texts of a cell that failed."""
        count, sides = len(self.data.splits[split]), []
        for name in (method, "random"):
            by_seed = [results.values(self.scores(name, metric, seed, split)) for seed in self.seeds]
            sides.append(np.stack([values if len(values) else np.full(count, np.nan) for values in by_seed]))
        return Pairs(*sides)

    def diagnosticity(self, results: Results, spec: str, split: str = "test") -> float:
        """A metric's, mean over attributions."""
        return statistics.mean([self.pairs(results, method, spec, split).diagnosticity for method in METHODS])

    def by_ratio(self, results: Results, method: str, metric: str, spec: str) -> Floats:
        """[seeds, examples, ratios] NS or NC at each rationale length; NaN for texts of a cell that failed."""
        values = np.full((len(self.seeds), len(self.data.splits["test"]), len(AOPC_RATIOS)), np.nan)
        for place, seed in enumerate(self.seeds):
            for number, score in enumerate(results.scores(self.scores(method, spec, seed))):
                values[place, number] = at_ratios(metric, score)
        return values


@dataclass(frozen=True, eq=False)
class Pairs:
    """One metric's scores of a method and of random explanations, a row per seed. [seeds, examples]"""

    explained: Floats
    random: Floats

    @property
    def won(self) -> Floats:
        """[examples] the share of seeds in which the explanation beats the random one; NaN where undefined in all."""
        return mean_over_seeds(np.where(self._undefined, np.nan, self.explained > self.random))

    @property
    def won_or_tied(self) -> Floats:
        """[examples] the same, with ties counted as won, as the released code does."""
        return mean_over_seeds(np.where(self._undefined, np.nan, self.explained >= self.random))

    @property
    def undefined(self) -> int:
        """How many pairs have no order."""
        return int(self._undefined.sum())

    @property
    def _undefined(self) -> Any:
        return np.isnan(self.explained) | np.isnan(self.random)

    @property
    def diagnosticity(self) -> float:
        """Equation 6: the share of pairs that the metric orders rightly; a tie is not."""
        return statistics.mean(self.won)

    @property
    def interval(self) -> tuple[float, float]:
        """95 %, over examples: seeds of one example are averaged first."""
        return statistics.bca_interval(self.won)


def at_ratios(metric: str, score: Score) -> Floats:
    """[ratios] NS or NC at each rationale length, from what was stored for their mean."""
    record = score.record
    if "p_zero" not in record:
        return np.full(len(AOPC_RATIOS), np.nan)
    if metric == "NS":
        return np.asarray(formulas.normalized_sufficiency(record["p_full"], record["p_kept"], record["p_zero"]))
    return np.asarray(formulas.normalized_comprehensiveness(record["p_full"], record["p_erased"], record["p_zero"]))
