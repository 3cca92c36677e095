"""One data set of the SaLoss study: which models are trained on it, what is asked of them, what the paper printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from troth.store.cells import Cell, Plan
from troth.studies import published
from troth.studies._trained import Material, Results, Trials, settings_like
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

# How each attribution is computed, and whether its absolute value ranks the tokens.
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
SOURCE_PRINTED = {"plain": "baseline", "text_rank": "textrank", "uniform": "uniform", "tf_idf": "tfidf"} | {
    "chi_squared": "chisquared"
}
# How tokens are erased until the prediction flips: deleted; or, in the released code, replaced by the padding id, with
# α∇α over its sum, which turns its order round where the sum is negative.
FLIPS = {"paper": "decision_flip", "released": "decision_flip(masking=pad)"}


@dataclass(eq=False)
class Experiment:
    """Models by what their attention was guided by ("plain": nothing) and seed."""

    trials: Trials
    seeds: Sequence[int]
    given: dict[str, Any]  # settings that are not the paper's
    weight: float | None = None  # λ; None: the paper's
    variant: str = "paper"

    @property
    def material(self) -> Material:
        return self.trials.material

    @property
    def name(self) -> str:
        return self.material.name

    @property
    def printed(self) -> str:
        return PRINTED.get(self.name, "")

    def recipe(self, source: str, weight: float | None = None) -> tuple[str, dict[str, Any]]:
        """The recipe and settings of a model."""
        asked: Any = "plain"
        if source != "plain":
            chosen = self.weight if weight is None else weight
            asked = with_salience("salience", source=source, weight=chosen, variant=self.variant)
        return settings_like("saloss", asked, self.trials.base, self.material, **self.given)

    def model(self, source: str, seed: int, weight: float | None = None) -> Cell:
        """The training of a model."""
        return self.trials.training(*self.recipe(source, weight), seed)

    def flips(self, source: str, method: str, seed: int, way: str = "paper") -> Cell:
        """How much must go before a model's prediction flips, by an attribution method."""
        explainer, magnitude = METHODS.get(method, (method, False))
        over_sum = way == "released" and method == "attention_x_gradient"
        explanation = self.trials.explanation(
            self.model(source, seed), explainer, magnitude=magnitude, over_sum=over_sum
        )
        return self.trials.metric(explanation, FLIPS[way])

    def words(self, source: str, seed: int) -> Cell:
        """α∇α of every word of the test set."""
        return self.trials.explanation(self.model(source, seed), METHODS["attention_x_gradient"][0], units="word")

    def fresh(self, source: str, explainer: str, thresholder: str, seed: int, ratio: float) -> Cell:
        """A classifier of the rationales that a model's explanation chooses."""
        _, settings = self.recipe("plain")
        return self.trials.fresh(self.model(source, seed), explainer, ratio, thresholder, settings, seed)

    def search(self) -> dict[float, Cell]:
        """The development flip fraction of attention for each λ, with the first seed."""
        found = {}
        for weight in WEIGHTS:
            model = self.model("text_rank", self.seeds[0], weight)
            explanation = self.trials.explanation(model, "attention", split="validation")
            found[weight] = self.trials.metric(explanation, FLIPS["paper"])
        return found

    def choose_weight(self, results: Results) -> None:
        """Takes the λ whose search came out best."""
        flips = {weight: float(np.nanmean(results.values(cell))) for weight, cell in self.search().items()}
        self.weight = best_weight(flips)


def printed(file: str, **wanted: str) -> float:
    """A number of the paper; NaN where it has none."""
    rows = [row for row in published.read(file) if all(row[key] == value for key, value in wanted.items())]
    value = (rows[0].get("fraction") or rows[0].get("f1") or rows[0].get("value")) if rows else None
    return float(value) if value else float("nan")


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Over seeds; the deviation of one seed is undefined."""
    known = np.array(values, np.float64)
    return float(known.mean()), float(known.std(ddof=1)) if len(known) > 1 else float("nan")


def without_trainings(plan: Plan) -> Plan:
    """The plan for an estimate, which tries cells on a few examples: a training is not tried out."""
    return replace(plan, probes={"training": "", "fresh": ""})
