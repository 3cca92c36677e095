"""The tables of the SaLoss study, from stored rows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from troth import seeds, statistics
from troth.models import short_name
from troth.studies import Section, published
from troth.studies._material import Material
from troth.studies._numbers import learning_rates, mean_and_deviation
from troth.studies._results import Results
from troth.studies.saloss._experiment import (
    METHOD_PRINTED,
    METHODS,
    PRINTED,
    SALIENCES,
    SOURCE_PRINTED,
    SUPPORTS,
    SalossExperiment,
)
from troth.training import recipes
from troth.training.recipes.salience import Salience

_LEVEL = 0.05
_ERASED = {"paper": "deleted", "released": "padded (as the released code does)"}
_TABLES = {"top_k": "3", "contiguous": "7"}
_GUIDED = ("plain", "text_rank", "uniform")


def data(materials: Sequence[Material]) -> Section:
    names = ("train", "validation", "test", "words", "classes")
    rows, facts = [], {}
    for material in materials:
        ours = [*material.sizes, len(material.labels)]
        about = {"table": "5", "dataset": PRINTED.get(material.name, "")}
        theirs = [published.text("saloss_hparams", **about, parameter=parameter)
                  for parameter in ("train", "dev", "test", "avg_words", "classes")]  # fmt: skip
        rows.append([material.name, *ours, *theirs])
        facts[material.name] = dict(zip(names, ours, strict=True))
    columns = ("data", *names, "published: train", *names[1:])
    return Section("data", "Table 5: the data sets", columns, rows, "Words: mean of the first texts trained on.", facts)


def performance(experiments: Sequence[SalossExperiment], results: Results) -> Section:
    columns = ("data", "plain", "(deviation)", "published", "salience", "(deviation)", "published", "λ", "published")
    rows, facts = [], {}
    for experiment in experiments:
        row: list[Any] = [experiment.name]
        scores, about = {}, {"dataset": experiment.printed}
        for source, model in (("plain", "baseline"), ("text_rank", "saloss")):
            scores[source] = [results.quality(experiment.model(source, seed)) for seed in experiment.seeds]
            theirs = published.number("saloss_performance", **about, model=model, quantity="f1_macro")
            row += [*mean_and_deviation(scores[source]), theirs]
        weight, theirs = _weight(experiment), published.number("saloss_performance", **about, quantity="lambda")
        rows.append([*row, f"{weight:g}", None if theirs is None else f"{theirs:g}"])
        facts[experiment.name] = {**scores, "lambda": weight}
    return Section("performance", "Table 1: macro-F1 on the test set, mean over seeds", columns, rows, "", facts)


def settings(experiments: Sequence[SalossExperiment], results: Results) -> Section:
    columns = ("data", "base", "learning rate", "of the head", "epochs", "batch", "F1, validation", "published: base",
               "learning rate", "of the head", "epochs", "F1, validation")  # fmt: skip
    rows, facts = [], {}
    for experiment in experiments:
        _, settings = experiment.recipe("plain")
        models = [experiment.model("plain", seed) for seed in experiment.seeds]
        f1, _ = mean_and_deviation([results.quality(model, split="validation") for model in models])
        trained = [*learning_rates(settings), settings["epochs"], settings["batch_size"], f1]
        theirs = [
            published.text("saloss_hparams", table=table, dataset=experiment.printed, parameter=parameter)
            for table, parameter in (("6", "model"), ("6", "lr_model"), ("6", "lr_classifier"), ("text", "epochs"),
                                     ("6", "f1_macro_dev"))
        ]  # fmt: skip
        rows.append([experiment.name, short_name(experiment.trials.base), *trained, *theirs])
        facts[f"settings of {experiment.name}"] = dict(settings)
    return Section("performance", "Table 6: how the models were trained", columns, rows, "", facts)


def flips(experiment: SalossExperiment, results: Results, way: str) -> Section:
    columns = ("model", "attribution", "flip fraction", "low", "high", "published", "p", "sooner than plain",
               "published")  # fmt: skip
    rows, facts = [], {}
    by_model = {
        (source, method): [results.values(experiment.flips(source, method, seed, way)) for seed in experiment.seeds]
        for source, method in (("plain", "random"), *itertools.product(("plain", "text_rank"), METHODS))
    }
    for (source, method), values in by_model.items():
        mean, low, high = seeds.over_seeds(values)
        about = {"table": "2", "dataset": experiment.printed, "method": METHOD_PRINTED[method]}
        about |= {} if method == "random" else {"model": "baseline" if source == "plain" else "saloss"}
        theirs = published.row("saloss_decision_flip", **about)
        p, sooner, marked = np.nan, "", ""
        if source != "plain":
            plain = seeds.per_example(by_model["plain", method])
            p = statistics.wilcoxon_rank_sum(seeds.per_example(values), plain)[1]
            sooner = "†" if p < _LEVEL and mean < np.nanmean(plain) else "no"
            marked = {"true": "†", "false": "no"}.get(theirs.get("significant_vs_baseline", ""), "–")
        fraction = published.number("saloss_decision_flip", "fraction", **about)
        rows.append([source, method, mean, low, high, fraction, p, sooner, marked])
        facts[f"{source} {method}"] = {"flip_fraction": mean, "interval": [low, high], "p": p}
    test = f"Wilcoxon rank-sum over examples, each averaged over seeds, p < {_LEVEL}"
    words = f"Lower is better. † sooner than plain, {test}."
    title = f"Table 2: share of tokens {_ERASED[way]} before the prediction flips, {experiment.name}"
    return Section("decision_flip", title, columns, rows, words, {_named(experiment, way): facts})


def saliences(experiment: SalossExperiment, results: Results, way: str) -> Section:
    rows, facts = [], {}
    for source, method in itertools.product(SALIENCES, METHODS):
        values = [results.values(experiment.flips(source, method, seed, way)) for seed in experiment.seeds]
        mean, low, high = seeds.over_seeds(values)
        about = {"dataset": experiment.printed, "salience": SOURCE_PRINTED[source], "method": METHOD_PRINTED[method]}
        theirs = published.number("saloss_decision_flip", "fraction", table="8", **about)
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
        about = {"table": table, "dataset": experiment.printed}
        theirs = [published.number("saloss_fresh", "f1", **about, salience=SOURCE_PRINTED[name]) for name in _GUIDED]
        shown = [_with_deviation(*mean_and_deviation(scores)) for scores in f1.values()]
        rows.append([f"{experiment.name} ({experiment.ratio:.0%})", *shown, p, *theirs])
        facts[experiment.name] = {"ratio": experiment.ratio, "macro_f1": f1, "p": p}
    columns = ("data", "full text", *SUPPORTS, "p", *(f"{name}, published" for name in _GUIDED))
    title = f"Table {table}: macro-F1 of classifiers that read {thresholder} rationales alone, attention"
    words = "Means over seeds (standard deviation); p: t-test over seeds of text_rank against plain."
    return Section("fresh", title, columns, rows, words, {thresholder: facts})


def _with_deviation(mean: float, deviation: float) -> str:
    if np.isnan(mean):
        return "–"
    return f"{mean:.3f}" if np.isnan(deviation) else f"{mean:.3f} ({deviation:.3f})"


def _named(experiment: SalossExperiment, way: str) -> str:
    return experiment.name if way == "paper" else f"{experiment.name} ({way})"


def _weight(experiment: SalossExperiment) -> float:
    """λ of the salience-guided models."""
    parts = recipes.parts_of(recipes.build(experiment.recipe("text_rank")[0]))
    return next(part.strength for part in parts if isinstance(part, Salience))
