"""One data set of the SaLoss study: the models trained on it, what is computed with them, and the paper's names for
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from troth.statistics import Floats
from troth.store.cells import Cell
from troth.studies._results import Results
from troth.studies._trained_study import Experiment
from troth.training import recipes
from troth.training.recipes.salience import WEIGHTS
from troth.verbs.tune import best_weight, with_salience

PRINTED = {
    "sst": "SST",
    "ag_news": "AG",
    "evidence_inference": "EvInf",
    "multirc": "MultiRC",
    "multirc_superglue": "MultiRC",
    "semeval2017_4a": "SemEval",
}
BASES = {"evidence_inference": "allenai/scibert_scivocab_uncased"} | dict.fromkeys(
    ("multirc", "multirc_superglue"), "roberta-base"
)
RATIOS = {"evidence_inference": 0.1}

# The specification of each attribution, and whether tokens are ranked by its absolute value.
METHODS = {
    "attention": ("attention", False),
    "input_x_gradient": ("input_x_gradient(of=probability)", True),
    "attention_x_gradient": ("attention_x_gradient(of=probability)", False),
    "integrated_gradients": ("integrated_gradients(of=probability, moves=all)", False),
}
METHOD_PRINTED = {
    "random": "random",
    "attention": "attention",
    "input_x_gradient": "x*grad",
    "attention_x_gradient": "attention*grad",
    "integrated_gradients": "IG",
}
SOURCE_PRINTED = {
    "plain": "baseline",
    "text_rank": "textrank",
    "uniform": "uniform",
    "tf_idf": "tfidf",
    "chi_squared": "chisquared",
}
SALIENCES = ("text_rank", "chi_squared", "tf_idf")  # of table 8
GUIDED = ("plain", "text_rank", "uniform")  # models whose explanations select rationales
# Rationales by name: the model and the explainer.
SUPPORTS = {source: (source, "attention") for source in GUIDED} | {"random": ("plain", "random")}
# How tokens are erased until the prediction flips: deleted; or, in the released code, replaced by the padding id, with
# α∇α over its sum, which reverses its order where the sum is negative.
FLIPS = {"paper": "decision_flip", "released": "decision_flip(masking=pad)"}


@dataclass(frozen=True, eq=False)
class SalossExperiment(Experiment):
    """Models by the salience that guided their attention ("plain": none) and seed."""

    names_in_paper: ClassVar[Mapping[str, str]] = PRINTED

    weight: float | None = None  # λ; None: the paper's
    variant: str = "paper"
    ratio: float = 0.2  # of rationales

    def at(self, weight: float) -> SalossExperiment:
        """The same experiment with another λ."""
        return replace(self, weight=weight)

    def recipe(self, source: str) -> recipes.RecipeLike:
        """The training recipe of a model."""
        if source == "plain":
            return "plain"
        return with_salience("salience", source=source, weight=self.weight, variant=self.variant)

    def model(self, source: str, seed: int) -> Cell:
        """The training of a model."""
        return self.train(self.recipe(source), seed)

    def explanation(self, source: str, method: str, seed: int, *, split: str = "test", over_sum: bool = False) -> Cell:
        """The attributions of a model, token by token."""
        explainer, magnitude = METHODS.get(method, (method, False))
        model = self.model(source, seed)
        return self.explain(model, explainer, split=split, magnitude=magnitude, over_sum=over_sum)

    def flips(self, source: str, method: str, seed: int, way: str = "paper") -> Cell:
        """The share of tokens to erase until a model's prediction flips, in the order of an attribution method."""
        over_sum = way == "released" and method == "attention_x_gradient"
        return self.score(self.explanation(source, method, seed, over_sum=over_sum), FLIPS[way])

    def flip_values(self, results: Results, source: str, method: str, way: str = "paper") -> list[Floats]:
        """The values of `flips` by seed."""
        return [results.values(self.flips(source, method, seed, way)) for seed in self.seeds]

    def development_flips(self, source: str, seed: int) -> Cell:
        """The flip fraction of attention on the development set, by which λ is selected."""
        return self.score(self.explanation(source, "attention", seed, split="validation"), FLIPS["paper"])

    def words(self, source: str, seed: int) -> Cell:
        """α∇α of every word of the test set."""
        return self.explain(self.model(source, seed), METHODS["attention_x_gradient"][0], units="word")

    def fresh(self, source: str, explainer: str, thresholder: str, seed: int) -> Cell:
        """A classifier of the rationales that a model's explanation selects."""
        return self.train_on_rationales(self.model(source, seed), explainer, self.ratio, thresholder, seed)

    def search(self) -> dict[float, Cell]:
        """The development flip fraction of attention for each λ, with the first seed."""
        return {weight: self.at(weight).development_flips("text_rank", self.seeds[0]) for weight in WEIGHTS}

    def with_best_weight(self, results: Results) -> SalossExperiment:
        """The same experiment with the best λ of the search."""
        flips = {weight: float(np.nanmean(results.values(cell))) for weight, cell in self.search().items()}
        return self.at(best_weight(flips))
