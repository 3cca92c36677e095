"""The tables of the study, from rows: of one run, or of several put together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from troth import statistics
from troth.core.display import counted
from troth.statistics import CrossedMean, crossed_mean
from troth.studies import Section
from troth.studies._results import with_interval
from troth.validity.checking import LEVEL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAN = float("nan")
_NONE = CrossedMean(_NAN, _NAN, _NAN, _NAN, 0, 0)
_PLACES = {
    "average_precision": "average precision", "precision": "precision at k", "rank": "mean rank",
    "mass": "share of sizes",
}  # fmt: skip
_MORE = {
    "ordered_mixed": "pairs right", "tau_explainers": "τ, explainers", "ordered_explainers": "pairs right, explainers",
    "tau_means": "τ of means", "diagnosticity": "diagnosticity", "truth_wins": "truth wins",
    "truth_first": "truth is best", "tau_noise": "τ, only noise", "undefined": "undefined",
}  # fmt: skip
_INTERVALS = "[95 % intervals] over texts and seeds."

Group = tuple[str, ...]  # data, base, shortcut, recipe
BySeed = dict[int, dict[str, float]]  # values by seed and example


class KeptRows:
    """The rows of a study by what they are about."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._found: dict[tuple[str, str], dict[Group, BySeed]] = defaultdict(dict)
        for row in rows:
            group = (row["data"], row["base"], row["shortcut"], row["recipe"])
            by_seed = self._found[row["about"], row["quantity"]].setdefault(group, {})
            value = row["value"]
            by_seed.setdefault(row["seed"], {})[row["example_id"]] = float("nan") if value is None else float(value)

    def abouts(self, quantity: str) -> list[str]:
        """The explainers or metrics that have a quantity."""
        return [about for about, name in self._found if name == quantity]

    def groups(self, about: str, quantity: str) -> Mapping[Group, BySeed]:
        """The values of a quantity, by data, base, shortcut and recipe."""
        return self._found.get((about, quantity), {})

    def names(self, place: int) -> list[str]:
        """The data sets (0), bases (1), shortcuts (2) or recipes (3) there are."""
        return list(dict.fromkeys(group[place] for group in self.groups("", "kept")))

    def of_models(self, quantity: str, group: Group) -> list[float]:
        """A quantity of each model of a group."""
        return [next(iter(values.values())) for values in self.groups("", quantity).get(group, {}).values()]

    def mean(self, about: str, quantity: str, shortcut: str | None = None, recipe: str | None = None) -> CrossedMean:
        """Over the texts of all data sets, and over seeds.

        Several models with one seed (of other bases, shortcuts or recipes) have the same texts, and explanations that
        are mixed with the same noise: a text counts once, as the mean over the models that have it.
        """
        found: dict[int, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
        for group, by_seed in self.groups(about, quantity).items():
            if shortcut in (None, group[2]) and recipe in (None, group[3]):
                for seed, values in by_seed.items():
                    for text, value in values.items():
                        if not np.isnan(value):
                            found[seed][group[0], text].append(value)
        texts = dict.fromkeys(text for values in found.values() for text in values)
        means = [[statistics.mean(values.get(text, [])) for text in texts] for values in found.values()]
        return crossed_mean(means) if found else _NONE


def models(rows: KeptRows) -> Iterator[Section]:
    """How many models use their shortcut."""
    changes = ("planted", "swapped", "redrawn", "without")
    table, facts, kept, trained = [], {}, 0, 0
    for group in rows.groups("", "kept"):
        uses = rows.of_models("kept", group)
        kept, trained = kept + int(sum(uses)), trained + len(uses)
        means = {change: statistics.mean(rows.of_models(change, group)) for change in changes}
        table.append([*group, f"{int(sum(uses))} of {len(uses)}", *means.values()])
        facts[" ".join(group)] = {"kept": int(sum(uses)), "trained": len(uses), **means}
    columns = (
        "data",
        "base",
        "shortcut",
        "recipe",
        "use it",
        "as planted",
        "label swapped",
        "others changed",
        "one missing",
    )
    words = (
        f"{kept} of {counted(trained, 'model')} provably use the shortcut; the others are left out below. The columns "
        "show the share of texts for which the model predicts what the shortcut decides: as planted; with the "
        "deciding words changed so that the label changes; with the other planted words changed. If a needed word is "
        "missing, nothing decides the label, and chance level is one half."
    )
    yield Section("models", "Which models use the shortcut", columns, table, words, facts)


def explainers(rows: KeptRows) -> Iterator[Section]:
    """Where explainers rank the deciding words."""
    shortcuts = rows.names(2)
    for recipe in rows.names(3):
        found = {
            name: {
                **{shortcut: rows.mean(name, "average_precision", shortcut, recipe) for shortcut in shortcuts},
                **{place: rows.mean(name, place, None, recipe) for place in _PLACES},
            }
            for name in rows.abouts("average_precision")
        }
        columns = ("explainer", *shortcuts, *(f"all: {what}" for what in _PLACES.values()))
        words = (
            "By shortcut: the average precision of the deciding words in the order of the scores (1: they rank above "
            "all others). Precision at k: their share of the top k words, if there are k of them. Share of sizes: "
            f"their share of the sum of absolute scores. {_INTERVALS}"
        )
        table = _table(found, "average_precision")
        yield Section("explainers", f"Explainers on {recipe} models", columns, table, words, {recipe: _plain(found)})


def metrics(rows: KeptRows) -> Iterator[Section]:
    """Which metrics rank explanations as the truth does."""
    shortcuts = rows.names(2)
    for recipe in rows.names(3):
        found = {
            name: {
                **{shortcut: rows.mean(name, "tau_mixed", shortcut, recipe) for shortcut in shortcuts},
                "all": rows.mean(name, "tau_mixed", None, recipe),
            }
            for name in rows.abouts("tau_mixed")
        }
        words = (
            "Kendall's τ-b between a metric's ranking of five explanations of one text, which are the truth mixed with "
            "0 to 100 % of noise, and their ranking by where they place the deciding words. "
            f"{_INTERVALS} {believe(found)}"
        )
        overall = {name: each["all"] for name, each in found.items()}
        draw = partial(draw_metrics, found={f"{recipe} models": overall}) if overall else None
        yield Section(
            "metrics", f"Metrics and shortcuts, {recipe} models", ("metric", *shortcuts, "all"), _table(found, "all"),
            words, {recipe: _plain(found)}, draw,
        )  # fmt: skip
        more = {name: {what: rows.mean(name, what, None, recipe) for what in _MORE} for name in found}
        words = (
            "Pairs right: the share of pairs of explanations of different quality that the metric orders correctly; a "
            "tie counts as one half. τ, explainers: Kendall's τ-b for the explanations of the explainers instead of "
            "the mixed ones. τ of means: τ of the explainers' means over texts, by model. Diagnosticity: the share of "
            "texts for which an explainer scores better than random. Truth wins: the share of worse explanations that "
            "score worse than the true one. Truth is best: the share of models for which no mixed explanation has a "
            "better mean. τ, only noise: τ of explanations that consist of noise only, against an arbitrary order."
        )
        short = [name for name, each in more.items() if each["truth_first"].mean < 1]
        if short:
            words += f" For some models, the true explanation does not have the best mean by {', '.join(short)}."
        title = f"Metrics on {recipe} models, all shortcuts"
        yield Section("metrics", title, ("metric", *_MORE.values()), _table(more, "ordered_mixed"), words,
                      {f"{recipe}, more": _plain(more)})  # fmt: skip


def believe(found: Mapping[str, Mapping[str, CrossedMean]]) -> str:
    """Which metric to believe, and for which shortcuts another one, from the table."""
    means = {name: each["all"] for name, each in found.items() if not np.isnan(each["all"].mean)}
    if not means:
        return ""
    best = max(means, key=lambda name: means[name].mean)
    close = [name for name, each in means.items() if name != best and each.high >= means[best].low]
    said = f"The best metric is {best}: τ {with_interval(means[best][:3], 2)}"
    if close:
        said += f"; its interval overlaps with {'that' if len(close) == 1 else 'those'} of {', '.join(close)}"
    ahead: dict[str, list[str]] = {}
    for shortcut in [name for name in found[best] if name != "all"]:
        first = max(means, key=lambda name: np.nan_to_num(found[name][shortcut].mean, nan=-2.0))
        if first != best:
            ahead.setdefault(first, []).append(shortcut)
    each = [f"{metric} ranks highest for {', '.join(shortcuts)}" for metric, shortcuts in ahead.items()]
    return f"{'; '.join([said, *each])}."


def in_distribution(rows: KeptRows) -> Iterator[Section]:
    """Whether the stamp tells where a metric misleads."""
    table, facts = [], {}
    for name in rows.abouts("stamp"):
        inside, outside = by_stamp(rows, name)
        _, p = statistics.t_test(inside, outside)
        means = [crossed_mean(np.array(values)[:, None]) if values else _NONE for values in (inside, outside)]
        difference = means[0].mean - means[1].mean
        table.append([name, len(inside), _shown(means[0]), len(outside), _shown(means[1]), difference, p])
        facts[name] = {"in": inside, "out": outside, "difference": difference, "p": p}
    columns = ("metric", "models in", "pairs right", "models out", "pairs right", "in minus out", "p")
    words = (
        "Models are *in* if texts that are masked at random with the masking of the metric are in distribution (no "
        f"evidence against, p ≥ {LEVEL}, calibrated MaSF), otherwise *out*. Pairs right: the share of pairs of "
        "explanations of known quality that the metric orders correctly, by model; [95 % intervals] over models. p: "
        "Student's t-test of *in* against *out*."
    )
    title = "Does the test of distribution show where a metric misleads?"
    yield Section("in_distribution", title, columns, table, words, facts)


def by_stamp(rows: KeptRows, metric: str) -> tuple[list[float], list[float]]:
    """The share of pairs that a metric orders rightly, by model: in distribution, and out of it."""
    inside: list[float] = []
    outside: list[float] = []
    ordered = rows.groups(metric, "ordered_mixed")
    for group, by_seed in rows.groups(metric, "stamp").items():
        for seed, values in by_seed.items():
            of_model = inside if next(iter(values.values())) >= LEVEL else outside
            of_model.append(statistics.mean(list(ordered[group][seed].values())))
    return inside, outside


SECTIONS: Mapping[str, Callable[[KeptRows], Iterator[Section]]] = {
    "models": models, "explainers": explainers, "metrics": metrics, "in_distribution": in_distribution,
}  # fmt: skip


def draw_metrics(figure: Figure, found: Mapping[str, Mapping[str, CrossedMean]]) -> None:
    """τ of each metric with its interval, best first; a color per name, say per recipe."""
    axes = figure.subplots()
    first = next(iter(found.values()))
    order = sorted(first, key=lambda name: np.nan_to_num(first[name].mean, nan=-2.0))
    for number, (name, of) in enumerate(found.items()):
        places = np.arange(len(order)) - 0.25 * number
        means, low, high = np.array([of.get(metric, _NONE)[:3] for metric in order]).T
        axes.errorbar(means, places, xerr=[means - low, high - means], fmt="o", markersize=3, linewidth=1, label=name)
    axes.set_yticks(range(len(order)), order, fontsize=7)
    axes.axvline(0, linestyle=":", color="black", linewidth=0.8)
    axes.set_xlabel("Kendall's τ with the truth", fontsize=9)
    axes.legend(fontsize=7, loc="lower right")


def _table(found: Mapping[str, Mapping[str, CrossedMean]], by: str) -> list[list[str]]:
    order = sorted(found, key=lambda name: -np.nan_to_num(found[name][by].mean, nan=-2.0))
    return [[name, *map(_shown, found[name].values())] for name in order]


def _shown(found: CrossedMean) -> str:
    return with_interval(found[:3], 2)


def _plain(found: Mapping[str, Mapping[str, CrossedMean]]) -> dict[str, dict[str, dict[str, float]]]:
    return {
        name: {what: {"mean": mean.mean, "low": mean.low, "high": mean.high} for what, mean in each.items()}
        for name, each in found.items()
    }
