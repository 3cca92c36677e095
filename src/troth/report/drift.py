"""Compares the explanations of the same texts in two runs: which of them changed, and by how much more than noise.

The distance of two explanations of a text is 1 − Spearman's correlation of their scores' magnitudes: 0 for the same
ranking of its words, about 1 for unrelated ones. Between the runs it is the mean over all pairs of one seed from each
run, and the noise is the mean over all pairs of seeds within a run. The excess, distance − noise, has expectation 0 if
only the random draws differ. A text has moved if even its closest two seeds of different runs are farther apart than
any two seeds of one run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from troth import seeds, statistics
from troth.core import numbers
from troth.core.copies import clusters
from troth.core.errors import TrothError
from troth.core.sheet import Sheet, TableCell, plain_sheet
from troth.report.baseline import TextKey, text_keys
from troth.report.board import leaderboards
from troth.report.page_overview import BySeed, Explained, explained, rank_agreement, texts
from troth.store.store import Store

_ROUNDING = 1e-6
_FIELDS = ("explainer", "texts", "distance", "noise", "moved by", "moved")


@dataclass(frozen=True, eq=False)
class TextDrift:
    """One explainer on one text; `before` and `after` are the explanations of the first seeds."""

    explainer: str
    before: Explained
    after: Explained
    between: tuple[float, ...]  # distances between every seed of one run and every seed of the other
    within: tuple[float, ...]  # distances between the seeds of each run; empty if both have one seed

    @property
    def distance(self) -> float:
        return float(np.mean(self.between))

    @property
    def noise(self) -> float:
        """The mean distance between seeds of one run; NaN if it is not known."""
        return float(np.mean(self.within)) if self.within else math.nan

    @property
    def excess(self) -> float:
        """The distance minus the noise; the whole distance if the noise is not known."""
        return self.distance - (self.noise if self.within else 0.0)

    @property
    def moved(self) -> bool | None:
        """Whether the text has moved; None if the noise is not known."""
        return min(self.between) > max(self.within) + _ROUNDING if self.within else None


@dataclass(frozen=True, eq=False)
class Drift:
    """All texts that two runs share, by explainer, sorted by their excess."""

    texts: Mapping[str, Sequence[TextDrift]]
    labels: tuple[Sequence[str], Sequence[str]]  # labels of the classes, before and after
    names: tuple[str, str]  # names of the runs
    left_out: int  # explanations whose units differ between the runs, or whose scores are constant
    seeds: tuple[int, int]

    def sheet(self) -> Sheet:
        """One row per explainer."""
        rows, records = [], []
        for explainer, every in self.texts.items():
            by_cluster = _by_cluster(every)
            value, (low, high) = statistics.mean(by_cluster), statistics.bca_interval(by_cluster)
            noise = statistics.mean([one.noise for one in every])
            moved = [one.moved for one in every if one.moved is not None]
            share = sum(moved) / len(moved) if moved else math.nan
            distance = statistics.mean([one.distance for one in every])
            rows.append([
                TableCell(explainer), TableCell(len(every)), TableCell(distance), TableCell(noise),
                TableCell(value, low, high), TableCell(numbers.percent(share) if moved else None),
            ])  # fmt: skip
            records.append((explainer, len(every), distance, noise, value, low, high, share))
        title = f"Explanations of the same texts: {self.names[0]} → {self.names[1]}"
        fields = ("explainer", "texts", "distance", "noise", "excess", "low", "high", "moved")
        plain = plain_sheet(title, fields, records, self.notes())
        columns = plain_sheet(title, _FIELDS, [[cell.value for cell in row] for row in rows]).columns
        return Sheet(title, columns, rows, plain.records, fields, plain.notes)

    def notes(self) -> list[str]:
        """Notes on how to read the numbers."""
        lines = [
            "Distance: 1 − Spearman's correlation of the absolute scores, 0 for the same ranking. Noise: this distance "
            "between seeds of one run. Moved by: distance − noise, with its 95 % interval over texts."
        ]
        if max(self.seeds) < 2:
            lines.append("The noise is not known: both runs have one seed. Run both again with --seed 0,1,2,3.")
        else:
            chance = math.comb(sum(self.seeds), self.seeds[0]) / (2 if self.seeds[0] == self.seeds[1] else 1)
            lines.append(
                "Moved: the runs differ by more than any two seeds of one run do. With so many seeds, this happens by "
                f"chance in at most 1 of {chance:,.0f} texts."
            )
        if self.left_out:
            lines.append(
                f"{self.left_out} explanations were left out: their units differ between the runs, or "
                "all their scores are equal."
            )
        return lines


def drift(first: Store, second: Store) -> Drift:
    """Matches texts by their content, and explainers by their specs."""
    sides = [_explanations(store) for store in (first, second)]
    shared = [name for name in sides[0] if name in sides[1]]
    if not shared:
        raise TrothError(f"the runs share no explainer: {', '.join(sides[0])} and {', '.join(sides[1])}")
    found: dict[str, list[TextDrift]] = {}
    left_out = 0
    for name in shared:
        before, after = (side[name] for side in sides)
        every = [_drift(name, before[key], after[key]) for key in before if key in after]
        known = [one for one in every if one is not None]
        left_out += len(every) - len(known)
        if known:
            found[name] = sorted(known, key=lambda one: -one.excess)
    if not found:
        raise TrothError("the runs share no text that both explain in the same units")
    counted = [max(len(some) for each in side.values() for some in each.values()) for side in sides]
    labels = tuple(_labels(store) for store in (first, second))
    return Drift(
        found, (labels[0], labels[1]), (str(first.folder), str(second.folder)), left_out, (counted[0], counted[1])
    )


def _explanations(store: Store) -> dict[str, dict[TextKey, list[Explained]]]:
    """explainer -> text -> its explanations, one per seed."""
    boards = leaderboards(store)
    if len(boards) != 1:
        raise TrothError(f"{store.folder} has {len(boards)} leaderboards; compare runs of one model and one data set")
    cells = [cell for cell in store.cells() if cell.kind == "explanation" and not cell.error]
    sources, keys = texts(store, cells), text_keys(store, cells)
    found: dict[str, dict[TextKey, list[Explained]]] = {}
    for name in boards[0].explainers:
        by_seed: BySeed = explained(store, [cell for cell in cells if cell.specs["explainer"] == name], sources)
        for seed in by_seed:
            for key, one in seed.items():
                found.setdefault(name, {}).setdefault(keys[key], []).append(one)
    return found


def _drift(name: str, before: Sequence[Explained], after: Sequence[Explained]) -> TextDrift | None:
    every = [*before, *after]
    if len({one.spans for one in every}) > 1 or len(every[0].scores) < 2:
        return None
    distances = 1 - rank_agreement(np.abs([one.scores for one in every]).astype(np.float64))
    between = [float(distances[i, len(before) + j]) for i, j in product(range(len(before)), range(len(after)))]
    inside = [*combinations(range(len(before)), 2), *combinations(range(len(before), len(every)), 2)]
    within = [float(distances[pair]) for pair in inside]
    if np.isnan([*between, *within]).any():
        return None
    return TextDrift(name, before[0], after[0], tuple(between), tuple(within))


def _by_cluster(every: Sequence[TextDrift]) -> statistics.Floats:
    """The excess of each independent text: clusters of copies and groups count once."""
    sources = [one.before.source for one in every]
    groups = [source.group for source in sources]
    together = clusters(
        [source.text for source in sources], [source.text_pair for source in sources],
        groups if any(group is not None for group in groups) else None,
    )  # fmt: skip
    return seeds.mean_over_clusters([one.excess for one in every], together)


def _labels(store: Store) -> Sequence[str]:
    models = (store.about() or {}).get("models", {})
    return next((facts.get("labels") or () for facts in models.values()), ())


def lines(found: Drift, most: int) -> Iterator[str]:
    """The texts that moved most, over all explainers but random."""
    every = [one for name, some in found.texts.items() if name != "random" for one in some if one.distance > _ROUNDING]
    for one in sorted(every, key=lambda one: -one.excess)[:most]:
        first, second = (
            decision(side, labels) for side, labels in zip((one.before, one.after), found.labels, strict=True)
        )
        noise = "" if math.isnan(one.noise) else f" (noise {one.noise:.2f})"
        yield f"{one.excess:+.2f}{noise} {one.explainer}: {first} → {second}: {one.before.source.text}"


def decision(one: Explained, labels: Sequence[str]) -> str:
    """The name and probability of the explained class."""
    name = labels[one.target] if one.target < len(labels) else f"class {one.target}"
    return (
        f"{name} {numbers.percent(float(one.probabilities[one.target]))}"
        if one.target < len(one.probabilities)
        else name
    )
