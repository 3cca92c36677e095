"""What the soft-metrics study asks of one data set, and its tables, most of them of diagnosticity, from stored rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from troth import statistics
from troth.core.types import Score
from troth.metrics import formulas
from troth.metrics._erasing import AOPC_RATIOS
from troth.seeds import mean_over_seeds
from troth.statistics import Floats, mean
from troth.store.cells import Cell
from troth.studies import Section, published
from troth.studies._results import Line, Results, draw_lines, learning_rates, mean_and_deviation, with_interval
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
Specs = Mapping[str, Sequence[str]]  # metric of the paper's tables -> specs
Curves = Mapping[tuple[str, ...], Sequence[float]]  # data, metric and perhaps attribution -> values by ratio
PUBLISHED_BASE = "bert-base-uncased"
_RATIOS = tuple(f"{ratio:.0%}" for ratio in AOPC_RATIOS)


@dataclass(frozen=True, eq=False)
class SoftExperiment(Experiment):
    """A plain model per seed, its explanations, and their scores."""

    names_in_paper: ClassVar[Mapping[str, str]] = PRINTED

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
        return mean([self.pairs(results, method, spec, split).diagnosticity for method in METHODS])

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
    def undefined_share(self) -> float:
        return float(np.mean(self._undefined))

    @property
    def tied(self) -> float:
        """The share of defined pairs whose two scores are equal; seeds of one example are averaged first."""
        return mean(self.won_or_tied) - self.diagnosticity

    @property
    def _undefined(self) -> Any:
        return np.isnan(self.explained) | np.isnan(self.random)

    @property
    def diagnosticity(self) -> float:
        """Equation 6: the share of pairs that the metric orders rightly; a tie is not."""
        return mean(self.won)

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


def data(experiments: Sequence[SoftExperiment], results: Results, specs: Specs) -> Iterator[Section]:
    rows, facts = [], {}
    for experiment in experiments:
        scores = [results.quality(experiment.train("plain", seed)) for seed in experiment.seeds]
        average, deviation = mean_and_deviation(scores)
        _, settings = experiment.settled("plain")
        f1 = experiment.published("soft_datasets", quantity="f1_avg")
        ours = [settings["epochs"], settings["batch_size"], *learning_rates(settings)]
        theirs = [
            published.text("soft_hparams", dataset=experiment.printed, parameter=name)
            for name in ("epochs", "batch_size", "learning_rate", "learning_rate_linear")
        ]
        rows.append([experiment.name, *experiment.data.sizes, 100 * average, 100 * deviation, f1, *ours, *theirs])
        facts[experiment.name] = {"macro_f1": scores, "settings": dict(settings)}
    settled = ("epochs", "batch", "learning rate", "of the head")
    columns = ("data", "train", "validation", "test", "words", "macro-F1 %", "(deviation)", "published", *settled,
               *(f"{name}, published" for name in settled))  # fmt: skip
    yield Section("data", "Tables 1 and 5: data sets, macro-F1 and settings", columns, rows, "", facts)


def _published_differs(experiments: Sequence[SoftExperiment]) -> str:
    """Why measured and published numbers are not measurements of the same thing."""
    bases = sorted({experiment.base for experiment in experiments} - {PUBLISHED_BASE})
    other = f"; measured: {', '.join(bases)}" if bases else ""
    return (
        f"The published numbers do not measure the same. Published: {PUBLISHED_BASE}, with code that counts a tie as "
        f"won{other}; here a tie is lost, as in the paper's equation 6 (the part released shows both)."
    )


def diagnosticity(experiments: Sequence[SoftExperiment], results: Results, specs: Specs) -> Iterator[Section]:
    rows, facts = [], {}
    for experiment, method in itertools.product(experiments, METHODS):
        row: list[Any] = [experiment.name, method]
        for metric in METRICS:
            compared = experiment.pairs(results, method, specs[metric][0])
            theirs = experiment.published("soft_diagnosticity", method=method, metric=metric)
            left_out = f"{100 * compared.tied:.1f}, {100 * compared.undefined_share:.1f}"
            row += [with_interval((compared.diagnosticity, *compared.interval)), left_out, theirs]
            facts[f"{experiment.name} {method} {metric}"] = {
                "diagnosticity": compared.diagnosticity, "interval": list(compared.interval),
                "ties_won": mean(compared.won_or_tied), "undefined": compared.undefined,
            }  # fmt: skip
        rows.append(row)
    each_metric = ((metric, "tied, undefined %", "published") for metric in METRICS)
    columns = ("data", "attribution", *itertools.chain(*each_metric))
    words = (
        "Share of texts for which the metric ranks the explanation above a random one; 95 % interval over texts. A tie "
        "is not won; a pair is undefined, and left out, where the empty input predicts as well as the whole one. "
        + _published_differs(experiments)
    )
    yield Section("diagnosticity", "Table 6: diagnosticity", columns, rows, words, facts)


def averages(experiments: Sequence[SoftExperiment], results: Results, specs: Specs) -> Iterator[Section]:
    shares = {
        (metric, experiment.name, method): experiment.pairs(results, method, specs[metric][0]).diagnosticity
        for metric, experiment, method in itertools.product(METRICS, experiments, METHODS)
    }
    names = [experiment.name for experiment in experiments]
    for table, over, groups, place in (("2", "attributions", list(METHODS), 2), ("3", "data sets", names, 1)):
        rows, facts = [], {}
        for metric in METRICS:
            means = [
                mean([value for key, value in shares.items() if key[0] == metric and key[place] == group])
                for group in groups
            ]
            theirs = [
                published.number("soft_averages", table=table, metric=metric, group=PRINTED.get(group, group))
                for group in (*groups, "Average")
            ]
            rows.append([metric, *means, mean(means), *theirs])
            facts[metric] = dict(zip(groups, means, strict=True))
        columns = ("metric", *groups, "average", *(f"{group}, published" for group in groups), "average, published")
        title = f"Table {table}: diagnosticity over {over}"
        yield Section("averages", title, columns, rows, _published_differs(experiments), {f"table {table}": facts})
    yield _tests(shares)


def _tests(shares: Mapping[tuple[str, str, str], float]) -> Section:
    """Soft against hard, over all attributions and data sets, as the paper tests its 20 against 20."""
    samples = {metric: [value for key, value in shares.items() if key[0] == metric] for metric in METRICS}
    tests = {soft: statistics.wilcoxon_rank_sum(samples[soft], samples[hard]) for soft, hard in COUNTERPARTS.items()}
    adjusted = statistics.holm([p for _, p in tests.values()])
    rows, facts = [], {}
    for (soft, (statistic, p)), holm in zip(tests.items(), adjusted, strict=True):
        hard = COUNTERPARTS[soft]
        both = [pair for pair in zip(samples[soft], samples[hard], strict=True) if not np.isnan(pair).any()]
        wins = sum(of_soft > of_hard for of_soft, of_hard in both)
        rows.append([f"{soft} against {hard}", f"{wins} of {len(both)}", statistic, p, float(holm)])
        facts[soft] = {"higher": wins, "of": len(both), "statistic": statistic, "p": p, "holm": float(holm)}
    columns = ("test", "soft is higher in", "Wilcoxon rank-sum", "p (the paper's)", "p (Holm)")
    words = f"Over {len(samples['NC'])} pairs of attribution and data set; the paper has 20 and finds p < .01 for both."
    return Section("averages", "Is soft more diagnostic than hard?", columns, rows, words, {"tests": facts})


def lengths(experiments: Sequence[SoftExperiment], results: Results, specs: Specs) -> Iterator[Section]:
    """Figures 2 and 3: NS and NC at each length of the rationale."""
    faithfulness: dict[tuple[str, ...], list[float]] = {}
    shares: dict[tuple[str, ...], list[float]] = {}  # diagnosticity, mean over attributions
    for experiment, metric in itertools.product(experiments, HARD):
        spec = specs[metric][0]
        by_method = {name: experiment.by_ratio(results, name, metric, spec) for name in (*METHODS, "random")}
        for name, scores in by_method.items():
            by_place = scores.reshape(-1, len(AOPC_RATIOS)).T
            faithfulness[experiment.name, metric, name] = [mean(values) for values in by_place]
        at_places = [{name: scores[..., place] for name, scores in by_method.items()} for place in range(len(_RATIOS))]
        shares[experiment.name, metric] = [
            mean([Pairs(scores[name], scores["random"]).diagnosticity for name in METHODS]) for scores in at_places
        ]
    soft: dict[tuple[str, ...], list[float]] = {
        (experiment.name, metric): [experiment.diagnosticity(results, specs[metric][0])] * len(AOPC_RATIOS)
        for experiment, metric in itertools.product(experiments, SOFT)
    }
    yield Section(
        "lengths", "Figure 2: NS and NC by rationale length", ("data", "metric", "attribution", *_RATIOS),
        _curve_rows(faithfulness), "Means over texts and seeds.", {"faithfulness": _named(faithfulness)},
        partial(draw_lines, panels=_panels(faithfulness), across="rationale length", up="NS or NC"),
    )  # fmt: skip
    yield Section(
        "lengths", "Figure 3: diagnosticity by rationale length", ("data", "metric", *_RATIOS),
        [*_curve_rows(shares), *_curve_rows(soft)], "Means over attributions; the soft metrics have no length.",
        {"diagnosticity": _named(shares)},
        partial(draw_lines, panels=_panels({**shares, **soft}), across="rationale length", up="diagnosticity"),
    )  # fmt: skip


def _curve_rows(curves: Curves) -> list[list[Any]]:
    return [[*key, *values] for key, values in curves.items()]


def _named(curves: Curves) -> dict[str, Sequence[float]]:
    return {" ".join(key): values for key, values in curves.items()}


def _panels(curves: Curves) -> dict[str, dict[str, Line]]:
    """By all but the last word of a curve's name, which is its own."""
    panels: dict[str, dict[str, Line]] = {}
    for (*panel, name), values in curves.items():
        panels.setdefault(", ".join(panel), {})[name] = Line(AOPC_RATIOS, values)
    return panels


def examples(experiments: Sequence[SoftExperiment], results: Results, specs: Specs) -> Iterator[Section]:
    rows: list[list[Any]] = []
    for experiment in experiments:
        texts = experiment.data.splits["test"]
        for place, method in zip(range(min(3, len(texts))), itertools.cycle(METHODS)):
            for name in (method, "random"):
                cells = [experiment.scores(name, specs[metric][0], experiment.seeds[0]) for metric in METRICS]
                values = [results.values(cell) for cell in cells]
                scores = [float(column[place]) if len(column) > place else float("nan") for column in values]
                rows.append([experiment.name, texts[place].text[:120], name, *scores])
    words = "The first texts of each test set, each with another attribution; the model of the first seed."
    yield Section("examples", "Table 4: scores of single texts", ("data", "text", "attribution", *METRICS), rows, words)


def released(experiments: Sequence[SoftExperiment], results: Results, specs: Specs) -> Iterator[Section]:
    rows, facts = [], {}
    for experiment, metric in itertools.product(experiments, METRICS):
        compared = [experiment.pairs(results, method, specs[metric][1]) for method in METHODS]
        ties_won = mean([mean(both.won_or_tied) for both in compared])
        undefined = mean([both.undefined_share for both in compared])
        row = [*(experiment.diagnosticity(results, spec) for spec in specs[metric]), ties_won, undefined]
        theirs = published.number("soft_averages", table="3", metric=metric, group=experiment.printed)
        rows.append([experiment.name, metric, *row, theirs])
        names = ("paper", "released", "released, ties won", "released, undefined")
        facts[f"{experiment.name} {metric}"] = dict(zip(names, row, strict=True))
    columns = ("data", "metric", "the paper's rules", "released code", "released code, ties won",
               "released code, undefined", "published")  # fmt: skip
    words = (
        "Mean diagnosticity over attributions. Released: swapped keep probabilities, elements dropped after the "
        "embedding layer, scores clipped to [0, 1] with a nudged denominator; it counts ties as won. "
        + _published_differs(experiments)
    )
    yield Section("released", "The paper's rules and the released code's", columns, rows, words, facts)


def by_spec(
    part: str,
    experiments: Sequence[SoftExperiment],
    results: Results,
    specs: Mapping[str, Mapping[tuple[str, str], str]],
) -> Section:
    """A row per data set and spec: the mean over attributions, and each attribution's diagnosticity."""
    rows, facts = [], {}
    for experiment in experiments:
        for (metric, variant), spec in specs[experiment.name].items():
            compared = {method: experiment.pairs(results, method, spec) for method in METHODS}
            shares = {method: both.diagnosticity for method, both in compared.items()}
            values = {method: mean(both.explained.ravel()) for method, both in compared.items()}
            best = max(values, key=lambda method: -np.inf if np.isnan(values[method]) else values[method])
            tied = {method: both.tied for method, both in compared.items()}
            undefined = {method: both.undefined_share for method, both in compared.items()}
            means = [mean(list(each.values())) for each in (shares, tied, undefined)]
            rows.append([experiment.name, metric, variant, *means, *shares.values(), best])
            facts[f"{experiment.name} {metric} {variant}"] = {
                "diagnosticity": shares, "tied": tied, "undefined": undefined, "mean": values,
            }  # fmt: skip
    columns = ("data", "metric", "how", "mean diagnosticity", "tied", "undefined", *METHODS, "highest mean score")
    title, words = _BY_SPEC[part]
    return Section(part, title, columns, rows, words, facts)


SECTIONS: Mapping[str, Callable[[Sequence[SoftExperiment], Results, Specs], Iterator[Section]]] = {
    "data": data,
    "diagnosticity": diagnosticity,
    "averages": averages,
    "lengths": lengths,
    "examples": examples,
    "released": released,
}
_BY_SPEC = {  # title and words of the parts that compare specs of a metric
    "alternatives": (
        "Appendix C: other ways to fade a token",
        "The variance is the one with the highest diagnosticity on validation, with the first seed. The paper reports "
        "only that dropped elements do better than the others.",
    ),
    "maps": (
        "The same metrics with other maps from scores to [0, 1]",
        "Where the attribution with the highest mean score changes with the map, the verdict is the map's.",
    ),
    "retention": (
        "Soft metrics at equal retention",
        "retention=π rescales the keep probabilities of every attribution to the mean π (Huang & Chan, 2026). Without "
        "it, those that keep more (or erase more) score higher.",
    ),
}
