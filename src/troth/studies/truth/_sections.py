"""The tables of the study, from rows: of one run, or of several put together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from troth import statistics
from troth.statistics import CrossedMean, crossed_mean
from troth.studies import Section
from troth.studies._results import with_interval
from troth.studies.truth._shortcuts import SHORTCUTS
from troth.validity.checking import LEVEL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Key = tuple[str, str, str, str, str]  # data, base, shortcut, recipe; quantity
_NONE = CrossedMean(*[float("nan")] * 4, 0, 0)


class Rows:
    """The rows of a study by what they are about."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        # about, quantity -> (data, base, shortcut, recipe) -> seed -> example -> value
        self._found: dict[tuple[str, str], dict[tuple[str, ...], dict[int, dict[str, float]]]] = defaultdict(dict)
        for row in rows:
            group = (row["data"], row["base"], row["shortcut"], row["recipe"])
            by_seed = self._found[row["about"], row["quantity"]].setdefault(group, {})
            value = row["value"]
            by_seed.setdefault(row["seed"], {})[row["example_id"]] = float("nan") if value is None else float(value)

    def abouts(self, quantity: str) -> list[str]:
        """What there is a quantity of."""
        return [about for about, name in self._found if name == quantity]

    def groups(self, about: str, quantity: str) -> dict[tuple[str, ...], dict[int, dict[str, float]]]:
        """By data, base, shortcut and recipe: values by seed and example."""
        return self._found.get((about, quantity), {})

    def some(self, place: int) -> list[str]:
        """The data sets, bases, shortcuts or recipes there are."""
        return list(dict.fromkeys(group[place] for group in self.groups("", "kept")))

    def mean(self, about: str, quantity: str, shortcut: str | None = None, recipe: str | None = None) -> CrossedMean:
        """Over texts and seeds, of all data sets and bases together: one value per text of each.

        Seeds of different data sets or bases are different trainings, so the first that was kept of one stands beside
        the first that was kept of another.
        """
        chosen = [
            (group, list(by_seed.values())) for group, by_seed in self.groups(about, quantity).items()
            if (shortcut is None or group[2] == shortcut) and (recipe is None or group[3] == recipe)
        ]  # fmt: skip
        most = max((len(by_seed) for _, by_seed in chosen), default=0)
        full = [(group, by_seed) for group, by_seed in chosen if 2 * len(by_seed) > most]
        count = min((len(by_seed) for _, by_seed in full), default=0)
        columns = [
            [by_seed[place].get(text, float("nan")) for place in range(count)]
            for _, by_seed in full for text in by_seed[0]
        ]  # fmt: skip
        return crossed_mean(np.array(columns).T) if count else _NONE


def models(rows: Rows) -> Iterator[Section]:
    """How many models use their shortcut."""
    table, facts = [], {}
    for group in rows.groups("", "kept"):
        of = {name: _of(rows, name, group) for name in ("kept", "planted", "swapped", "redrawn", "without")}
        kept = f"{int(np.nansum(of['kept']))} of {len(of['kept'])}"
        table.append([*group, kept, *(_mean(of[name]) for name in ("planted", "swapped", "redrawn", "without"))])
        facts[" ".join(group)] = {name: _mean(values) for name, values in of.items()}
    columns = ("data", "base", "shortcut", "recipe", "use it", "as planted", "decides: swapped", "does not: changed",
               "a word missing")  # fmt: skip
    kept = sum(float(np.nansum(_of(rows, "kept", group))) for group in rows.groups("", "kept"))
    trained = sum(len(_of(rows, "kept", group)) for group in rows.groups("", "kept"))
    words = (
        f"{kept:.0f} of {trained} models use their shortcut; the others are left out below. Shares of texts in which "
        "the model says what the shortcut says: as planted; with the words swapped so that the label is the other one; "
        "with the words changed that decide nothing. With a word missing nothing tells the label, so half are right."
    )
    yield Section("models", "Which models use the shortcut", columns, table, words, facts)
    for name, shortcut in SHORTCUTS.items():
        facts.setdefault("shortcuts", {})[name] = shortcut.what


def explainers(rows: Rows) -> Iterator[Section]:
    """Where explainers place the words that decide."""
    shortcuts = rows.some(2)
    for recipe in rows.some(3):
        table, facts = [], {}
        for name in rows.abouts("average_precision"):
            each = {shortcut: rows.mean(name, "average_precision", shortcut, recipe) for shortcut in shortcuts}
            overall = {place: rows.mean(name, place, None, recipe) for place in _PLACES}
            table.append([name, *map(with_interval_of, each.values()), *map(with_interval_of, overall.values())])
            facts[name] = {**_plain(each), **_plain(overall)}
        table.sort(key=lambda row: -facts[row[0]]["average_precision"]["mean"])
        columns = ("explainer", *shortcuts, *(f"all: {what}" for what in _PLACES.values()))
        words = (
            "Average precision of the words that decide in the order of the scores (1: before all others), by "
            "shortcut; then all shortcuts. [95 % intervals] over texts and seeds."
        )
        yield Section("explainers", f"Explainers, {recipe} models", columns, table, words, {recipe: facts})


_PLACES = {
    "average_precision": "average precision", "precision": "precision at k", "rank": "mean rank", "mass": "share of sizes",
}  # fmt: skip
_AGREEMENT = {
    "tau_mixed": "all: τ", "ordered_mixed": "all: pairs right", "tau_explainers": "τ, explainers",
    "ordered_explainers": "pairs right, explainers", "tau_means": "τ of explainers' means",
    "diagnosticity": "diagnosticity", "truth_wins": "truth wins", "truth_first": "truth is best",
    "tau_noise": "τ, only noise", "undefined": "undefined",
}  # fmt: skip


def metrics(rows: Rows) -> Iterator[Section]:
    """Which metrics rank explanations as the truth does."""
    shortcuts = rows.some(2)
    for recipe in rows.some(3):
        found = {}
        for name in rows.abouts("tau_mixed"):
            each = {shortcut: rows.mean(name, "tau_mixed", shortcut, recipe) for shortcut in shortcuts}
            found[name] = {**each, **{what: rows.mean(name, what, None, recipe) for what in _AGREEMENT}}
        ordered = sorted(found, key=lambda name: -np.nan_to_num(found[name]["tau_mixed"].mean, nan=-2))
        table = [[name, *map(with_interval_of, found[name].values())] for name in ordered]
        columns = ("metric", *shortcuts, *_AGREEMENT.values())
        words = (
            "By shortcut: Kendall's τ-b between a metric's ranking of five explanations of one text and the truth's; "
            "they are the truth mixed with 0 to 100 % of noise, and the truth's ranking is by average precision. τ, "
            "explainers: the same of the explainers. τ, only noise: of five explanations that are nothing but noise, "
            "in an order that means nothing. Pairs right: of those that the truth orders; a tie is half. Diagnosticity: "
            "explainers against random scores. Truth wins: against explanations that are worse; truth is best: share "
            f"of the models where its mean is the best of all. [95 % intervals] over texts and seeds. {believe(found, shortcuts)}"
        )
        facts = {name: _plain(values) for name, values in found.items()}
        draw = partial(draw_metrics, found={name: found[name]["tau_mixed"] for name in ordered})
        yield Section("metrics", f"Metrics, {recipe} models", columns, table, words, {recipe: facts}, draw)


def believe(found: Mapping[str, Mapping[str, CrossedMean]], shortcuts: Sequence[str]) -> str:
    """Which metric to believe, and when: in one sentence, from the table."""
    means = {name: each["tau_mixed"].mean for name, each in found.items() if not np.isnan(each["tau_mixed"].mean)}
    if not means:
        return ""
    best = max(means, key=lambda name: means[name])
    tied = [
        name for name, each in found.items() if name != best and each["tau_mixed"].high >= found[best]["tau_mixed"].low
    ]
    others = {}
    for shortcut in shortcuts:
        of = {name: found[name][shortcut].mean for name in means if not np.isnan(found[name][shortcut].mean)}
        if of and (first := max(of, key=lambda name: of[name])) != best:
            others[shortcut] = first
    said = f"Believe {best} (τ {with_interval(found[best]['tau_mixed'][:3], 2)})"
    said += f", or {', '.join(tied)}, whose intervals overlap with its own" if tied else ""
    each = "; ".join(f"{metric} is ahead for {shortcut}" for shortcut, metric in others.items())
    return f"{said}{f'; {each}' if each else ''}."


def in_distribution(rows: Rows) -> Iterator[Section]:
    """Whether MaSF's stamp tells where a metric misleads."""
    table, facts = [], {}
    for name in rows.abouts("stamp"):
        inside, outside = _by_stamp(rows, name)
        t, p = statistics.t_test(inside, outside)
        each = [
            with_interval_of(crossed_mean(np.array(values)[:, None])) if len(values) > 1 else None
            for values in (inside, outside)
        ]
        difference = float(np.mean(inside) - np.mean(outside)) if inside and outside else float("nan")
        table.append([name, len(inside), each[0], len(outside), each[1], difference, p])
        facts[name] = {"in": inside, "out": outside, "difference": difference, "p": p}
    columns = (
        "metric",
        "models in distribution",
        "pairs right",
        "models out of distribution",
        "pairs right",
        "difference",
        "p",
    )
    words = (
        f"By model: texts masked at random as the metric masks are in distribution (no evidence against, p ≥ {LEVEL}, "
        "calibrated MaSF) or out of it, and the share of pairs of explanations of known quality that the metric orders "
        "as the truth does. p: Student's test of models in against models out of distribution."
    )
    yield Section("in_distribution", "Does the stamp tell where a metric misleads?", columns, table, words, facts)


def _by_stamp(rows: Rows, metric: str) -> tuple[list[float], list[float]]:
    inside: list[float] = []
    outside: list[float] = []
    ordered = rows.groups(metric, "ordered_mixed")
    for group, by_seed in rows.groups(metric, "stamp").items():
        for seed, value in by_seed.items():
            mean = statistics.mean(list(ordered[group][seed].values()))
            (inside if value[""] >= LEVEL else outside).append(mean)
    return inside, outside


SECTIONS: Mapping[str, Callable[[Rows], Iterator[Section]]] = {
    "models": models, "explainers": explainers, "metrics": metrics, "in_distribution": in_distribution,
}  # fmt: skip


def draw_metrics(figure: Figure, found: Mapping[str, CrossedMean]) -> None:
    axes = figure.subplots()
    for place, each in enumerate(reversed(found.values())):
        axes.plot([each.low, each.high], [place, place], color="black", linewidth=1)
        axes.plot([each.mean], [place], "o", markersize=4)
    axes.set_yticks(range(len(found)), list(reversed(found)), fontsize=7)
    axes.axvline(0, linestyle=":", color="black", linewidth=0.8)
    axes.set_xlabel("Kendall's τ with the truth", fontsize=9)


def with_interval_of(found: CrossedMean) -> str:
    return with_interval(found[:3], 2)


def _of(rows: Rows, quantity: str, group: tuple[str, ...]) -> list[float]:
    """One value per model."""
    return [value[""] for value in rows.groups("", quantity).get(group, {}).values()]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _plain(found: Mapping[str, CrossedMean]) -> dict[str, dict[str, float]]:
    return {name: {"mean": each.mean, "low": each.low, "high": each.high} for name, each in found.items()}
