"""The tables of the SaLoss study, from stored rows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from troth import seeds, statistics
from troth.core.units import word_spans
from troth.models import short_name
from troth.studies import Section, published
from troth.studies._trained import Material, Results
from troth.studies.saloss._experiment import (
    METHOD_PRINTED,
    METHODS,
    PRINTED,
    SOURCE_PRINTED,
    Experiment,
    mean_and_deviation,
    printed,
)
from troth.training import recipes

_LEVEL = 0.05
_ERASED = {"paper": "deleted", "released": "padded (as the released code does)"}


def data_table(materials: list[Material]) -> Section:
    columns = ("data", "train", "validation", "test", "words", "classes", "published: train", "validation", "test",
               "words", "classes")  # fmt: skip
    rows, facts = [], {}
    for material in materials:
        counts = [len(material.splits[split]) for split in ("train", "validation", "test")]
        lengths = [len(word_spans(one.text)) for one in material.splits["train"][:2000]]
        ours = [*counts, float(np.mean(lengths)), len(material.labels)]
        name = PRINTED.get(material.name, "")
        theirs = [_hyper("5", name, parameter) for parameter in ("train", "dev", "test", "avg_words", "classes")]
        rows.append([material.name, *ours, *theirs])
        facts[material.name] = dict(zip(("train", "validation", "test", "words", "classes"), ours, strict=True))
    return Section("data", "Table 5: the data sets", columns, rows, "Words: mean of the first texts trained on.", facts)


def performance(experiments: list[Experiment], results: Results, words: str) -> Section:
    columns = ("data", "plain", "(deviation)", "published", "salience", "(deviation)", "published", "λ", "published")
    rows, facts = [], {}
    for one in experiments:
        row: list[Any] = [one.name]
        found = {}
        for source, name in (("plain", "baseline"), ("text_rank", "saloss")):
            found[source] = [results.quality(one.model(source, seed)) for seed in one.seeds]
            theirs = printed("saloss_performance", dataset=one.printed, model=name, quantity="f1_macro")
            row += [*mean_and_deviation(found[source]), theirs]
        weight = _weight(one)
        theirs = printed("saloss_performance", dataset=one.printed, quantity="lambda")
        rows.append([*row, f"{weight:g}", "–" if np.isnan(theirs) else f"{theirs:g}"])
        facts[one.name] = {**found, "lambda": weight}
    return Section("performance", "Table 1: macro-F1 on the test set, mean over seeds", columns, rows, words, facts)


def settings(experiments: list[Experiment], results: Results) -> Section:
    columns = ("data", "base", "learning rate", "of the head", "epochs", "batch", "F1, validation", "published: base",
               "learning rate", "of the head", "epochs", "F1, validation")  # fmt: skip
    rows, facts = [], {}
    for one in experiments:
        _, settings = one.recipe("plain")
        f1 = mean_and_deviation([results.quality(one.model("plain", seed), split="validation") for seed in one.seeds])[
            0
        ]
        rates = [
            f"{settings[name]:g}" if settings.get(name) else None for name in ("learning_rate", "head_learning_rate")
        ]
        ours = [short_name(one.trials.base), *rates, settings["epochs"], settings["batch_size"], f1]
        theirs = [_hyper("6", one.printed, name) for name in ("model", "lr_model", "lr_classifier")]
        rows.append(
            [one.name, *ours, *theirs, _hyper("text", one.printed, "epochs"), _hyper("6", one.printed, "f1_macro_dev")]
        )
        facts[f"settings of {one.name}"] = dict(settings)
    return Section("performance", "Table 6: how the models were trained", columns, rows, "", facts)


def flips(one: Experiment, results: Results, words: str, way: str = "paper") -> Section:
    columns = (
        "model",
        "attribution",
        "flip fraction",
        "low",
        "high",
        "published",
        "p",
        "sooner than plain",
        "published",
    )
    rows, facts = [], {}
    found = {("plain", "random"): [results.values(one.flips("plain", "random", seed, way)) for seed in one.seeds]}
    for source, method in itertools.product(("plain", "text_rank"), METHODS):
        found[source, method] = [results.values(one.flips(source, method, seed, way)) for seed in one.seeds]
    for (source, method), values in found.items():
        mean, low, high = seeds.over_seeds(values)
        row = {"table": "2", "dataset": one.printed, "method": METHOD_PRINTED[method]}
        row |= {} if method == "random" else {"model": "baseline" if source == "plain" else "saloss"}
        p, sooner, theirs = np.nan, "", ""
        if source != "plain":
            plain = seeds.per_example(found["plain", method])
            p = statistics.wilcoxon_rank_sum(seeds.per_example(values), plain)[1]
            sooner = "†" if p < _LEVEL and mean < np.nanmean(plain) else "no"
            marks = [known["significant_vs_baseline"] for known in published.read("saloss_decision_flip")
                     if all(known[key] == value for key, value in row.items())]  # fmt: skip
            theirs = "–" if not marks else "†" if marks[0] == "true" else "no"
        rows.append([source, method, mean, low, high, printed("saloss_decision_flip", **row), p, sooner, theirs])
        facts[f"{source} {method}"] = {"flip_fraction": mean, "interval": [low, high], "p": p}
    test = f"Wilcoxon rank-sum over examples, each averaged over seeds, p < {_LEVEL}"
    said = f"Lower is better. † sooner than plain, {test}. {words}"
    title = f"Table 2: share of tokens {_ERASED[way]} before the prediction flips, {one.name}"
    return Section("decision_flip", title, columns, rows, said.strip(), {_named(one, way): facts})


def saliences(one: Experiment, results: Results, words: str, way: str = "paper") -> Section:
    rows, facts = [], {}
    for source, method in itertools.product(("text_rank", "chi_squared", "tf_idf"), METHODS):
        values = [results.values(one.flips(source, method, seed, way)) for seed in one.seeds]
        mean, low, high = seeds.over_seeds(values)
        theirs = printed("saloss_decision_flip", table="8", dataset=one.printed, salience=SOURCE_PRINTED[source],
                         method=METHOD_PRINTED[method])  # fmt: skip
        rows.append([source, method, mean, low, high, theirs])
        facts[f"{source} {method}"] = {"flip_fraction": mean, "interval": [low, high]}
    columns = ("salience", "attribution", "flip fraction", "low", "high", "published")
    title = f"Table 8: share of tokens {_ERASED[way]} before the prediction flips by salience, {one.name}"
    return Section("saliences", title, columns, rows, words, {_named(one, way): facts})


def _named(one: Experiment, way: str) -> str:
    return one.name if way == "paper" else f"{one.name} ({way})"


def _weight(one: Experiment) -> float:
    (part,) = recipes.parts_of(recipes.build(one.recipe("text_rank")[0]))
    weight: float = part.strength  # type: ignore[attr-defined]
    return weight


def _hyper(table: str, dataset: str, parameter: str) -> str | None:
    """A value of tables 5 and 6 as it is printed."""
    rows = [row for row in published.read("saloss_hparams")
            if (row["table"], row["dataset"], row["parameter"]) == (table, dataset, parameter)]  # fmt: skip
    return rows[0]["value"] if rows else None
