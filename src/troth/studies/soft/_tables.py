"""The tables and figures of the soft-metrics study, from stored rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from troth import statistics
from troth.core.units import word_spans
from troth.metrics._erasing import AOPC_RATIOS
from troth.studies import Section, published
from troth.studies._trained import Results
from troth.studies.saloss._experiment import mean_and_deviation
from troth.studies.soft._experiment import (
    COUNTERPARTS,
    HARD,
    METHODS,
    METRICS,
    PRINTED,
    SOFT,
    Experiment,
    Pairs,
    by_ratio,
    mean,
    means,
    pairs,
    printed,
    printed_average,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Specs = Mapping[str, Sequence[str]]  # metric of the paper's tables -> specs


def data(experiments: Sequence[Experiment], results: Results, specs: Specs) -> Iterator[Section]:
    rows, facts = [], {}
    for experiment in experiments:
        splits = experiment.material.splits
        sizes = [len(splits[split]) for split in ("train", "validation", "test")]
        words = float(np.mean([len(word_spans(example.text)) for example in splits["train"][:2000]]))
        scores = [results.quality(experiment.model(seed)) for seed in experiment.seeds]
        average, deviation = mean_and_deviation(scores)
        settings = experiment.settings
        rates = [
            f"{settings[name]:g}" if settings.get(name) else None for name in ("learning_rate", "head_learning_rate")
        ]
        rows.append(
            [experiment.name, *sizes, words, 100 * average, 100 * deviation, _published_f1(experiment.name),
             settings["epochs"], settings["batch_size"], *rates]
        )  # fmt: skip
        facts[experiment.name] = {"macro_f1": scores, "settings": dict(settings)}
    columns = ("data", "train", "validation", "test", "words", "macro-F1 %", "(deviation)", "published", "epochs",
               "batch", "learning rate", "of the head")  # fmt: skip
    yield Section("data", "Tables 1 and 5: data sets, macro-F1 and settings", columns, rows, "", facts)


def diagnosticity(experiments: Sequence[Experiment], results: Results, specs: Specs) -> Iterator[Section]:
    rows, facts = [], {}
    for experiment, method in itertools.product(experiments, METHODS):
        row: list[Any] = [experiment.name, method]
        for metric in METRICS:
            compared = pairs(experiment, results, method, specs[metric][0])
            low, high = compared.interval
            row += [f"{compared.diagnosticity:.3f} [{low:.3f}, {high:.3f}]", printed(experiment.name, method, metric)]
            facts[f"{experiment.name} {method} {metric}"] = {
                "diagnosticity": compared.diagnosticity, "interval": [low, high],
                "ties_won": mean(compared.won_or_tied), "undefined": compared.undefined,
            }  # fmt: skip
        rows.append(row)
    columns = ("data", "attribution", *itertools.chain(*((metric, "published") for metric in METRICS)))
    words = "Share of texts in which the metric puts the explanation before a random one; 95 % interval over texts."
    yield Section("diagnosticity", "Table 6: diagnosticity", columns, rows, words, facts)


def averages(experiments: Sequence[Experiment], results: Results, specs: Specs) -> Iterator[Section]:
    shares = {
        (metric, experiment.name, method): pairs(experiment, results, method, specs[metric][0]).diagnosticity
        for metric, experiment, method in itertools.product(METRICS, experiments, METHODS)
    }
    names = [experiment.name for experiment in experiments]
    for table, groups, place in (("2", list(METHODS), 2), ("3", names, 1)):
        rows, facts = [], {}
        for metric in METRICS:
            by_group = {
                group: [value for key, value in shares.items() if key[0] == metric and key[place] == group]
                for group in groups
            }
            by_mean = [mean(values) for values in by_group.values()]
            theirs = [printed_average(table, metric, PRINTED.get(group, group)) for group in (*groups, "Average")]
            rows.append([metric, *by_mean, mean(by_mean), *theirs])
            facts[metric] = dict(zip(groups, by_mean, strict=True))
        columns = ("metric", *groups, "average", *(f"{group}, published" for group in groups), "average, published")
        by = "attributions" if table == "2" else "data sets"
        yield Section(
            "averages", f"Table {table}: diagnosticity over {by}", columns, rows, "", {f"table {table}": facts}
        )
    yield _tests(shares)


def _tests(shares: Mapping[tuple[str, str, str], float]) -> Section:
    """Soft against hard, over all attributions and data sets, as the paper tests its 20 against 20."""
    samples = {metric: [value for key, value in shares.items() if key[0] == metric] for metric in METRICS}
    tests = {soft: statistics.wilcoxon_rank_sum(samples[soft], samples[hard]) for soft, hard in COUNTERPARTS.items()}
    adjusted = statistics.holm([p for _, p in tests.values()])
    rows: list[list[Any]] = []
    facts = {}
    for (soft, (statistic, p)), holm in zip(tests.items(), adjusted, strict=True):
        hard = COUNTERPARTS[soft]
        both = [pair for pair in zip(samples[soft], samples[hard], strict=True) if not np.isnan(pair).any()]
        wins = sum(one > other for one, other in both)
        rows.append([f"{soft} against {hard}", f"{wins} of {len(both)}", statistic, p, float(holm)])
        facts[soft] = {"higher": wins, "of": len(both), "statistic": statistic, "p": p, "holm": float(holm)}
    columns = ("test", "soft is higher in", "Wilcoxon rank-sum", "p (the paper's)", "p (Holm)")
    words = f"Over {len(samples['NC'])} pairs of attribution and data set; the paper has 20 and finds p < .01 for both."
    return Section("averages", "Is soft more diagnostic than hard?", columns, rows, words, {"tests": facts})


def lengths(experiments: Sequence[Experiment], results: Results, specs: Specs) -> Iterator[Section]:
    rows: list[list[Any]] = []
    curves: dict[tuple[str, str, str], list[float]] = {}  # data, metric, attribution -> faithfulness by ratio
    shares: dict[tuple[str, str], list[float]] = {}  # data, metric -> diagnosticity by ratio, mean over attributions
    for experiment, metric in itertools.product(experiments, HARD):
        by_method = {
            name: by_ratio(experiment, results, name, metric, specs[metric][0]) for name in (*METHODS, "random")
        }
        for name, scores in by_method.items():
            curves[experiment.name, metric, name] = means(scores, axis=(0, 1)).tolist()
        wins = [
            [
                Pairs(scores[..., place], by_method["random"][..., place]).diagnosticity
                for place in range(len(AOPC_RATIOS))
            ]
            for name, scores in by_method.items()
            if name != "random"
        ]
        shares[experiment.name, metric] = means(wins, axis=0).tolist()
    for (name, metric, method), values in curves.items():
        rows.append([name, metric, method, *values])
    columns = ("data", "metric", "attribution", *(f"{ratio:.0%}" for ratio in AOPC_RATIOS))
    facts = {"faithfulness": {" ".join(key): values for key, values in curves.items()}}
    yield Section(
        "lengths", "Figure 2: NS and NC by rationale length", columns, rows, "Means over texts and seeds.", facts,
        lambda figure: _draw_faithfulness(figure, curves),
    )  # fmt: skip
    soft = {
        (experiment.name, metric): _mean(experiment, results, specs[metric][0])
        for experiment, metric in itertools.product(experiments, SOFT)
    }
    rows = [[name, metric, *values] for (name, metric), values in shares.items()]
    rows += [[name, metric, *[value] * len(AOPC_RATIOS)] for (name, metric), value in soft.items()]
    columns = ("data", "metric", *(f"{ratio:.0%}" for ratio in AOPC_RATIOS))
    facts = {"diagnosticity": {" ".join(key): values for key, values in shares.items()}}
    yield Section(
        "lengths", "Figure 3: diagnosticity by rationale length", columns, rows,
        "Means over attributions; the soft metrics know no length.", facts,
        lambda figure: _draw_diagnosticity(figure, shares, soft),
    )  # fmt: skip


def examples(experiments: Sequence[Experiment], results: Results, specs: Specs) -> Iterator[Section]:
    rows: list[list[Any]] = []
    seed_of = {experiment.name: experiment.seeds[0] for experiment in experiments}
    for experiment in experiments:
        texts = experiment.material.splits["test"]
        for place, method in zip(range(min(3, len(texts))), itertools.cycle(METHODS)):
            for name in (method, "random"):
                cells = [experiment.scores(name, specs[metric][0], seed_of[experiment.name]) for metric in METRICS]
                values = [results.values(cell) for cell in cells]
                scores = [float(column[place]) if len(column) > place else float("nan") for column in values]
                rows.append([experiment.name, texts[place].text[:120], name, *scores])
    words = "The first texts of each test set, an attribution in turn; the model of the first seed."
    yield Section("examples", "Table 4: scores of single texts", ("data", "text", "attribution", *METRICS), rows, words)


def released(experiments: Sequence[Experiment], results: Results, specs: Specs) -> Iterator[Section]:
    rows, facts = [], {}
    for experiment, metric in itertools.product(experiments, METRICS):
        ours, theirs = ([pairs(experiment, results, method, spec) for method in METHODS] for spec in specs[metric])
        row = [
            mean([compared.diagnosticity for compared in ours]),
            mean([compared.diagnosticity for compared in theirs]),
            mean([mean(compared.won_or_tied) for compared in theirs]),
        ]
        paper = printed_average("3", metric, PRINTED.get(experiment.name, ""))
        rows.append([experiment.name, metric, *row, paper])
        facts[f"{experiment.name} {metric}"] = dict(zip(("paper", "released", "released, ties won"), row, strict=True))
    columns = ("data", "metric", "the paper's rules", "released code", "released code, ties won", "published")
    words = "Mean diagnosticity over attributions. Released: swapped keep probabilities, clipped to [0, 1], nudged."
    yield Section("released", "The paper's rules and the released code's", columns, rows, words, facts)


def variants(part: str, title: str, words: str) -> Callable[[Sequence[Experiment], Results, Specs], Iterator[Section]]:
    """A table with a row per data set and spec: means over attributions and each attribution's diagnosticity."""

    def sections(experiments: Sequence[Experiment], results: Results, specs: Specs) -> Iterator[Section]:
        listed = {(metric, spec): spec for metric, choices in specs.items() for spec in choices}
        yield _by_spec(part, title, words, experiments, results, {one.name: listed for one in experiments})

    return sections


def alternatives(
    experiments: Sequence[Experiment], results: Results, specs: Mapping[str, Mapping[tuple[str, str], str]]
) -> Section:
    words = (
        "The variance is the one with the highest diagnosticity on validation, with the first seed. The paper reports "
        "only that dropped elements do better than the others."
    )
    return _by_spec("alternatives", "Appendix C: other ways to fade a token", words, experiments, results, specs)


def _by_spec(
    part: str, title: str, words: str, experiments: Sequence[Experiment], results: Results,
    specs: Mapping[str, Mapping[tuple[str, str], str]],
) -> Section:  # fmt: skip
    rows, facts = [], {}
    for experiment in experiments:
        for (metric, variant), spec in specs[experiment.name].items():
            compared = {method: pairs(experiment, results, method, spec) for method in METHODS}
            shares = {method: both.diagnosticity for method, both in compared.items()}
            values = {method: mean(both.explained) for method, both in compared.items()}
            best = max(values, key=lambda method: -np.inf if np.isnan(values[method]) else values[method])
            rows.append([experiment.name, metric, variant, mean(list(shares.values())), *shares.values(), best])
            facts[f"{experiment.name} {metric} {variant}"] = {"diagnosticity": shares, "mean": values}
    columns = ("data", "metric", "how", "mean diagnosticity", *METHODS, "highest mean score")
    return Section(part, title, columns, rows, words, facts)


def _mean(experiment: Experiment, results: Results, spec: str) -> float:
    return mean([pairs(experiment, results, method, spec).diagnosticity for method in METHODS])


def _published_f1(name: str) -> float | None:
    rows = published.read("soft_datasets")
    values = [row["value"] for row in rows if (row["dataset"], row["quantity"]) == (PRINTED.get(name), "f1_avg")]
    return float(values[0]) if values else None


def _draw_faithfulness(figure: Figure, curves: Mapping[tuple[str, str, str], Sequence[float]]) -> None:
    panels = list(dict.fromkeys((name, metric) for name, metric, _ in curves))
    for axes, (name, metric) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for (data_name, data_metric, method), values in curves.items():
            if (data_name, data_metric) == (name, metric):
                style = "--" if method == "random" else "-"
                axes.plot(AOPC_RATIOS, values, style, marker="o", markersize=3, label=method)
        axes.set_title(f"{name}, {metric}", fontsize=9)
        axes.set_xlabel("rationale length")
    axes.legend(fontsize=7)


def _draw_diagnosticity(
    figure: Figure, shares: Mapping[tuple[str, str], Sequence[float]], soft: Mapping[tuple[str, str], float]
) -> None:
    names = list(dict.fromkeys(name for name, _ in shares))
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for (data_name, metric), values in shares.items():
            if data_name == name:
                axes.plot(AOPC_RATIOS, values, marker="o", markersize=3, label=metric)
        for (data_name, metric), value in soft.items():
            if data_name == name:
                axes.axhline(value, linestyle="--", label=metric, color="C2" if metric == "Soft-NS" else "C3")
        axes.axhline(0.5, color="gray", linewidth=0.5)
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("rationale length")
        axes.set_ylabel("diagnosticity")
    axes.legend(fontsize=7)


SECTIONS: Mapping[str, Callable[[Sequence[Experiment], Results, Specs], Iterator[Section]]] = {
    "data": data,
    "diagnosticity": diagnosticity,
    "averages": averages,
    "lengths": lengths,
    "examples": examples,
    "released": released,
    "maps": variants(
        "maps", "The same metrics with other maps from scores to [0, 1]",
        "Where the attribution with the highest mean score changes with the map, the verdict is the map's.",
    ),
    "retention": variants(
        "retention", "Soft metrics at equal retention",
        "retention=π rescales the keep probabilities of every attribution to the mean π (Huang & Chan, 2026). Without "
        "it, those that keep more (or erase more) score higher.",
    ),
}  # fmt: skip
