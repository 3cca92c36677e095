"""What each weight λ of the salience loss does: how far attention moves toward the salience, what that costs in
macro-F1, and whether predictions flip sooner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from troth import salience, seeds, statistics
from troth.statistics import Floats
from troth.studies import Section
from troth.studies._numbers import mean_and_deviation
from troth.studies._results import Results
from troth.studies.saloss._experiment import METHODS, SalossExperiment
from troth.training.recipes.salience import WEIGHTS
from troth.verbs.tune import best_weight

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEVEL = 0.05
_SALIENCE = "text_rank"


def add_cells(experiment: SalossExperiment, seed: int, weights: Sequence[float]) -> None:
    """Every λ of one seed; 0 is the plain model."""
    if not weights:
        return
    for _, model, source in _models(experiment, weights):
        model.development_flips(source, seed)
        for method in METHODS:
            model.flips(source, method, seed)
    experiment.explanation("plain", _SALIENCE, seed)  # σ


def sweep(experiment: SalossExperiment, results: Results, weights: Sequence[float]) -> Section:
    title = f"λ: attention, macro-F1 and the share of tokens deleted before the prediction flips, {experiment.name}"
    columns = ("λ", "macro-F1", "KL(α, σ)", "development flips, attention", *METHODS)
    if not weights:
        why = "No weights were named, so this part is left out: pass, say, 'saloss(weights=(0.001, 0.1, 10.0))'."
        return Section("weights", title, columns, [], why, {experiment.name: None})
    sigma = _scores(results, experiment, "plain", _SALIENCE, experiment.seeds[0])
    flips: dict[tuple[float, str], list[Floats]] = {}
    development: dict[float, list[float]] = {}
    rows: list[list[Any]] = []
    facts: dict[str, Any] = {}
    for weight, model, source in _models(experiment, weights):
        f1 = [results.quality(model.model(source, seed)) for seed in model.seeds]
        moved = [divergence(_scores(results, model, source, "attention", seed), sigma) for seed in model.seeds]
        development[weight] = [
            statistics.mean(results.values(model.development_flips(source, seed))) for seed in model.seeds
        ]
        row: list[Any] = [
            f"{weight:g}",
            mean_and_deviation(f1)[0],
            statistics.mean(moved),
            statistics.mean(development[weight]),
        ]
        found: dict[str, Any] = {"macro_f1": f1, "divergence": moved, "development_flips": development[weight]}
        for method in METHODS:
            values = [results.values(model.flips(source, method, seed)) for seed in model.seeds]
            flips[weight, method] = values
            mean, low, high = seeds.over_seeds(values)
            p = statistics.wilcoxon_rank_sum(*map(seeds.per_example, (values, flips[0.0, method])))[1]
            differs = p < _LEVEL
            mark = "" if not differs else " †" if mean < seeds.over_seeds(flips[0.0, method])[0] else " ‡"
            row.append("–" if np.isnan(mean) else f"{mean:.3f}{mark}")
            found[method] = {"flip_fraction": mean, "interval": [low, high], "p": p if weight else np.nan}
        rows.append(row)
        facts[f"{weight:g}"] = found
    words = (
        "λ = 0 is the plain model. KL(α, σ): how far [CLS]'s attention is from TextRank, mean over test texts. "
        f"† sooner, ‡ later than plain, Wilcoxon rank-sum over examples, each averaged over seeds, p < {_LEVEL}. "
        f"{_chosen(development)}"
    )
    return Section(
        "weights", title, columns, rows, words, {experiment.name: facts}, partial(_draw, facts=facts)
    )  # fmt: skip


def divergence(attention: dict[str, Floats], sigma: dict[str, Floats]) -> float:
    """KL(α, σ) over each text's tokens, both normalized over them as in training; mean over texts.

    >>> divergence({"a": np.array([0.25, 0.25])}, {"a": np.array([1.0, 3.0])}).__round__(4)
    0.1438
    """
    each = []
    for name, weights in attention.items():
        alpha, target = weights / (weights.sum() or 1.0), salience.normalize(sigma[name])
        seen = alpha > 0
        each.append(float((alpha[seen] * np.log(alpha[seen] / target[seen])).sum()))
    return statistics.mean(each)


def _models(experiment: SalossExperiment, weights: Sequence[float]) -> Iterator[tuple[float, SalossExperiment, str]]:
    """Each λ, 0 first, with the experiment at it and what guides its models."""
    yield 0.0, experiment, "plain"
    for weight in sorted(set(weights) - {0.0}):
        yield weight, experiment.at(weight), _SALIENCE


def _scores(results: Results, experiment: SalossExperiment, source: str, method: str, seed: int) -> dict[str, Floats]:
    """Each text's scores; a text without tokens is left out."""
    rows = results.rows(experiment.explanation(source, method, seed))
    return {row["example_id"]: np.array(row["scores"], np.float64) for row in rows if row["scores"]}


def _chosen(development: dict[float, list[float]]) -> str:
    """What the paper's search chooses, and what a search over all weights would."""
    guided = {weight: statistics.mean(flips) for weight, flips in development.items() if weight}
    first = {weight: flips[0] for weight, flips in development.items() if weight in WEIGHTS}
    if not guided or np.isnan([*guided.values()]).any():
        return ""
    of_all = f"over all weights and seeds {best_weight(guided):g}"
    if set(first) != set(WEIGHTS):
        return f"Fewest tokens on the development set: {of_all}."
    of_these = f"of the paper's {', '.join(f'{weight:g}' for weight in sorted(first))} (first seed)"
    return f"Fewest tokens on the development set: {of_these} λ = {best_weight(first):g}, {of_all}."


def _draw(figure: Figure, facts: dict[str, Any]) -> None:
    left, right = figure.subplots(1, 2)
    places = np.arange(len(facts))
    for method in METHODS:
        left.plot(places, [found[method]["flip_fraction"] for found in facts.values()], marker="o", label=method)
    left.set_ylabel("share of tokens deleted before the prediction flips")
    left.legend(fontsize=7)
    for name, label in (("divergence", "KL(α, σ)"), ("macro_f1", "macro-F1")):
        right.plot(places, [statistics.mean(found[name]) for found in facts.values()], marker="o", label=label)
    right.legend(fontsize=7)
    for axes in (left, right):
        axes.set_xticks(places, list(facts))
        axes.set_xlabel("λ")
