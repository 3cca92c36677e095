"""The tables of the SaLoss study that compare plain and salience-guided models."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from troth import salience, seeds, statistics
from troth.models import short_name
from troth.statistics import Floats
from troth.studies import Section, published
from troth.studies._results import Results, learning_rates, mean_and_deviation
from troth.studies._trained_study import StudyData
from troth.studies.saloss._experiment import (
    GUIDED,
    METHOD_PRINTED,
    METHODS,
    PRINTED,
    SALIENCES,
    SOURCE_PRINTED,
    SUPPORTS,
    SalossExperiment,
)
from troth.training import recipes
from troth.training.recipes.salience import WEIGHTS, Salience
from troth.verbs.tune import best_weight

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEVEL = 0.05
_SALIENCE = "text_rank"
_ERASED = {"paper": "deleted", "released": "padded (as the released code does)"}
_TABLES = {"top_k": "3", "contiguous": "7"}


def data(data_sets: Sequence[StudyData]) -> Section:
    names = ("train", "validation", "test", "words", "classes")
    rows, facts = [], {}
    for data in data_sets:
        ours = [*data.sizes, len(data.labels)]
        about = {"table": "5", "dataset": PRINTED.get(data.name, "")}
        theirs = [published.text("saloss_hparams", **about, parameter=parameter)
                  for parameter in ("train", "dev", "test", "avg_words", "classes")]  # fmt: skip
        rows.append([data.name, *ours, *theirs])
        facts[data.name] = dict(zip(names, ours, strict=True))
    columns = ("data", *names, "published: train", *names[1:])
    return Section("data", "Table 5: the data sets", columns, rows, "Words: mean of the first texts trained on.", facts)


def performance(experiments: Sequence[SalossExperiment], results: Results) -> Section:
    columns = ("data", "plain", "(deviation)", "published", "salience", "(deviation)", "published", "λ", "published")
    rows, facts = [], {}
    for experiment in experiments:
        row: list[Any] = [experiment.name]
        scores = {}
        for source, model in (("plain", "baseline"), ("text_rank", "saloss")):
            scores[source] = [results.quality(experiment.model(source, seed)) for seed in experiment.seeds]
            theirs = experiment.published("saloss_performance", model=model, quantity="f1_macro")
            row += [*mean_and_deviation(scores[source]), theirs]
        recipe, _ = experiment.settled(experiment.recipe("text_rank"))
        parts = recipes.parts_of(recipes.build(recipe))
        weight = next(part.strength for part in parts if isinstance(part, Salience))
        theirs = experiment.published("saloss_performance", quantity="lambda")
        rows.append([*row, f"{weight:g}", None if theirs is None else f"{theirs:g}"])
        facts[experiment.name] = {**scores, "lambda": weight}
    return Section("performance", "Table 1: macro-F1 on the test set, mean over seeds", columns, rows, "", facts)


def settings(experiments: Sequence[SalossExperiment], results: Results) -> Section:
    columns = ("data", "base", "learning rate", "of the head", "epochs", "batch", "F1, validation", "published: base",
               "learning rate", "of the head", "epochs", "F1, validation")  # fmt: skip
    rows, facts = [], {}
    for experiment in experiments:
        _, settings = experiment.settled("plain")
        models = [experiment.model("plain", seed) for seed in experiment.seeds]
        f1, _ = mean_and_deviation([results.quality(model, split="validation") for model in models])
        trained = [*learning_rates(settings), settings["epochs"], settings["batch_size"], f1]
        theirs = [
            published.text("saloss_hparams", table=table, dataset=experiment.printed, parameter=parameter)
            for table, parameter in (("6", "model"), ("6", "lr_model"), ("6", "lr_classifier"), ("text", "epochs"),
                                     ("6", "f1_macro_dev"))
        ]  # fmt: skip
        rows.append([experiment.name, short_name(experiment.base), *trained, *theirs])
        facts[f"settings of {experiment.name}"] = dict(settings)
    return Section("performance", "Table 6: how the models were trained", columns, rows, "", facts)


def flips(experiment: SalossExperiment, results: Results, way: str) -> Section:
    columns = ("model", "attribution", "flip fraction", "low", "high", "published", "more than plain", "low", "high",
               "p", "sooner than plain", "p, unpaired", "published")  # fmt: skip
    rows, facts = [], {}
    by_model = {
        (source, method): experiment.flip_values(results, source, method, way)
        for source, method in (("plain", "random"), *itertools.product(("plain", "text_rank"), METHODS))
    }
    for (source, method), values in by_model.items():
        mean, low, high = seeds.over_seeds(values)
        about = {"table": "2", "method": METHOD_PRINTED[method]}
        about |= {} if method == "random" else {"model": "baseline" if source == "plain" else "saloss"}
        facts[f"{source} {method}"] = {"flip_fraction": mean, "interval": [low, high]}
        compared: list[Any] = [np.nan, np.nan, np.nan, np.nan, "", np.nan, ""]
        if source != "plain":
            plain = by_model["plain", method]
            more = seeds.difference(values, plain)
            sooner = "†" if more.p < _LEVEL and more.mean < 0 else "no"
            unpaired = statistics.wilcoxon_rank_sum(*map(seeds.per_example, (values, plain)))[1]
            theirs = published.row("saloss_decision_flip", dataset=experiment.printed, **about)
            marked = {"true": "†", "false": "no"}.get(theirs.get("significant_vs_baseline", ""), "–")
            compared = [*more[:4], sooner, unpaired, marked]
            facts[f"{source} {method}"] |= {"more_than_plain": more._asdict(), "p_unpaired": unpaired}
        fraction = experiment.published("saloss_decision_flip", "fraction", **about)
        rows.append([source, method, mean, low, high, fraction, *compared])
    words = (
        "Lower is better. More than plain: on the same examples, seed by seed; intervals and p take both seeds and "
        f"examples for drawn. † sooner than plain, p < {_LEVEL}. Unpaired: Wilcoxon's rank-sum test over examples, "
        "each averaged over seeds."
    )
    title = f"Table 2: share of tokens {_ERASED[way]} before the prediction flips, {experiment.name}"
    return Section("decision_flip", title, columns, rows, words, {_named(experiment, way): facts})


def saliences(experiment: SalossExperiment, results: Results, way: str) -> Section:
    rows, facts = [], {}
    for source, method in itertools.product(SALIENCES, METHODS):
        mean, low, high = seeds.over_seeds(experiment.flip_values(results, source, method, way))
        about = {"table": "8", "salience": SOURCE_PRINTED[source], "method": METHOD_PRINTED[method]}
        theirs = experiment.published("saloss_decision_flip", "fraction", **about)
        rows.append([source, method, mean, low, high, theirs])
        facts[f"{source} {method}"] = {"flip_fraction": mean, "interval": [low, high]}
    columns = ("salience", "attribution", "flip fraction", "low", "high", "published")
    title = f"Table 8: share of tokens {_ERASED[way]} before the prediction flips by salience, {experiment.name}"
    return Section("saliences", title, columns, rows, "", {_named(experiment, way): facts})


def fresh(thresholder: str, experiments: Sequence[SalossExperiment], results: Results) -> Section:
    table = _TABLES[thresholder]
    rows, facts = [], {}
    for experiment in experiments:
        f1 = {"full text": [results.quality(experiment.model("plain", seed)) for seed in experiment.seeds]}
        for name, (source, explainer) in SUPPORTS.items():
            cells = [experiment.fresh(source, explainer, thresholder, seed) for seed in experiment.seeds]
            f1[name] = [results.quality(cell) for cell in cells]
        p = statistics.t_test(f1["text_rank"], f1["plain"])[1]
        theirs = [
            experiment.published("saloss_fresh", "f1", table=table, salience=SOURCE_PRINTED[name]) for name in GUIDED
        ]
        shown = [_with_deviation(scores) for scores in f1.values()]
        rows.append([f"{experiment.name} ({experiment.ratio:.0%})", *shown, p, *theirs])
        facts[experiment.name] = {"ratio": experiment.ratio, "macro_f1": f1, "p": p}
    columns = ("data", "full text", *SUPPORTS, "p", *(f"{name}, published" for name in GUIDED))
    title = f"Table {table}: macro-F1 of classifiers that read {thresholder} rationales alone, attention"
    words = "Means over seeds (standard deviation); p: t-test over seeds of text_rank against plain."
    return Section("fresh", title, columns, rows, words, {thresholder: facts})


def _with_deviation(scores: Sequence[float]) -> str:
    mean, deviation = mean_and_deviation(scores)
    return "–" if np.isnan(mean) else f"{mean:.3f}{'' if np.isnan(deviation) else f' ({deviation:.3f})'}"


def _named(experiment: SalossExperiment, way: str) -> str:
    return experiment.name if way == "paper" else f"{experiment.name} ({way})"


def add_weights(experiment: SalossExperiment, seed: int, weights: Sequence[float]) -> None:
    """Adds the cells for every λ of one seed; 0 is the plain model."""
    if not weights:
        return
    for _, model, source in _models(experiment, weights):
        model.development_flips(source, seed)
        for method in METHODS:
            model.flips(source, method, seed)
    experiment.explanation("plain", _SALIENCE, seed)  # σ


def by_weight(experiment: SalossExperiment, results: Results, weights: Sequence[float]) -> Section:
    """The effect of each weight λ of the salience loss: how far attention moves toward the salience, the change in
    macro-F1, and whether predictions flip sooner.
    """
    title = f"λ: attention, macro-F1 and the share of tokens deleted before the prediction flips, {experiment.name}"
    columns = ("λ", "macro-F1", "KL(α, σ)", "development flips, attention", *METHODS)
    if not weights:
        why = "No weights were named, so this part is left out: pass, say, 'saloss(weights=(0.001, 0.1, 10.0))'."
        return Section("weights", title, columns, [], why, {experiment.name: None})
    sigma = _scores(results, experiment, "plain", _SALIENCE, experiment.seeds[0])
    development: dict[float, list[float]] = {}
    unguided: dict[str, list[Floats]] = {}
    rows: list[list[Any]] = []
    facts: dict[str, Any] = {}
    for weight, model, source in _models(experiment, weights):
        f1 = [results.quality(model.model(source, seed)) for seed in model.seeds]
        moved = [divergence(_scores(results, model, source, "attention", seed), sigma) for seed in model.seeds]
        development[weight] = [
            statistics.mean(results.values(model.development_flips(source, seed))) for seed in model.seeds
        ]
        means = (mean_and_deviation(f1)[0], statistics.mean(moved), statistics.mean(development[weight]))
        row: list[Any] = [f"{weight:g}", *means]
        found: dict[str, Any] = {"macro_f1": f1, "divergence": moved, "development_flips": development[weight]}
        for method in METHODS:
            values = model.flip_values(results, source, method)
            plain = unguided.setdefault(method, values)  # λ = 0 comes first
            mean, low, high = seeds.over_seeds(values)
            more = seeds.difference(values, plain)
            mark = "" if not more.p < _LEVEL else " †" if more.mean < 0 else " ‡"
            row.append("–" if np.isnan(mean) else f"{mean:.3f}{mark}")
            found[method] = {"flip_fraction": mean, "interval": [low, high]}
            if weight:
                found[method]["more_than_plain"] = more._asdict()
        rows.append(row)
        facts[f"{weight:g}"] = found
    words = (
        "λ = 0 is the plain model. KL(α, σ): how far [CLS]'s attention is from TextRank, mean over test texts. "
        f"† sooner, ‡ later than plain on the same examples, seed by seed, p < {_LEVEL}. "
        f"{_chosen(development)}"
    )
    return Section("weights", title, columns, rows, words, {experiment.name: facts}, partial(_draw, facts=facts))


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
    """Each λ, 0 first, with its experiment and the salience that guides its models."""
    yield 0.0, experiment, "plain"
    for weight in sorted(set(weights) - {0.0}):
        yield weight, experiment.at(weight), _SALIENCE


def _scores(results: Results, experiment: SalossExperiment, source: str, method: str, seed: int) -> dict[str, Floats]:
    """Each text's scores; a text without tokens is left out."""
    rows = results.rows(experiment.explanation(source, method, seed))
    return {row["example_id"]: np.array(row["scores"], np.float64) for row in rows if row["scores"]}


def _chosen(development: dict[float, list[float]]) -> str:
    """The λ that the paper's search selects, and the one that a search over all weights would select."""
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
