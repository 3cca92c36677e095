"""Compares two runs: which specs differ, and which values moved beyond their intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Attribution, Question, Score
from troth.engine.routines import Routine, per_text
from troth.metrics import ExplainOne, Metric, Summary
from troth.store.cells import canonical
from troth.store.measured import Clusters, Measured
from troth.store.store import Store, Stored


@dataclass(frozen=True)
class Number:
    """One metric of one explanation in both runs, not necessarily over the same examples."""

    specs: Mapping[str, Any]  # specs that both have in common
    before: Summary
    after: Summary

    @property
    def change(self) -> float:
        return self.after.value - self.before.value

    @property
    def moved(self) -> bool:
        """Whether neither value lies within the other's interval."""
        before, after = self.before, self.after
        return before.value != after.value and not _within(before.value, after) and not _within(after.value, before)


@dataclass(frozen=True)
class RunDifference:
    about: Mapping[str, tuple[Any, Any]]  # facts of run.json that differ: versions, models, data
    specs: Mapping[str, tuple[list[Any], list[Any]]]  # values that only the first or only the second run has
    numbers: Sequence[Number]
    only: tuple[int, int] = (0, 0)  # numbers of scores without a counterpart
    failed: tuple[int, int] = (0, 0)

    @property
    def moved(self) -> list[Number]:
        return [number for number in self.numbers if number.moved]


def diff(first: Store, second: Store) -> RunDifference:
    """Matches the metric cells of two runs by their common specs, and compares their values over all seeds."""
    cells = [[cell for cell in store.cells() if cell.kind == "metric"] for store in (first, second)]
    finished = [[cell for cell in some if not cell.error] for some in cells]
    here, there = (_values(some) for some in finished)
    only = {
        key: (_missing(here[key], there[key]), _missing(there[key], here[key]))
        for key in sorted({*here, *there})
        if here[key].keys() != there[key].keys()
    }
    # Specs without a common value (such as a new model) are not used for matching; they are what is compared.
    other = {key for key in only if not here[key].keys() & there[key].keys()}
    groups = [_groups(some, other | {"seed"}) for some in finished]
    numbers = [
        Number(
            specs={
                name: value
                for name, value in groups[0][key][0].specs.items()
                if all(cell.specs.get(name) == value for cell in groups[0][key] + groups[1][key])
            },
            before=summary(first, groups[0][key]),
            after=summary(second, groups[1][key]),
        )
        for key in groups[0]
        if key in groups[1]
    ]
    return RunDifference(
        about=_about(first.about() or {}, second.about() or {}),
        specs=only,
        numbers=numbers,
        only=(len(groups[0].keys() - groups[1].keys()), len(groups[1].keys() - groups[0].keys())),
        failed=(len(cells[0]) - len(finished[0]), len(cells[1]) - len(finished[1])),
    )


def summary(store: Store, cells: Sequence[Stored]) -> Summary:
    """The summary of a metric over its cells, as the metric defines it; seeds and clusters are averaged first."""
    measured = Measured.read(store, cells)
    return Clusters.read(store, cells).summary(_metric(cells[0]), measured)


class _Unknown(Metric):
    """A metric that is not in the catalog; it is summarized by the mean."""

    higher_is_better = None

    @per_text
    def ask(self, question: Question, attribution: Attribution, explain: ExplainOne) -> Routine[Score]:
        raise TrothError("a metric that is not in the catalog can be summarized, but not measured")


def _metric(cell: Stored) -> Metric:
    try:
        metric: Metric = catalog.build("metrics", str(cell.specs.get("metric_full", "")))
    except TrothError:
        return _Unknown()
    return metric


def _values(cells: Iterable[Stored]) -> defaultdict[str, dict[str, Any]]:
    """The values of every spec, by their canonical text."""
    values: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for cell in cells:
        for key, value in cell.specs.items():
            values[key][canonical(value)] = value
    return values


def _missing(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[Any]:
    return [value for text, value in here.items() if text not in there]


def _groups(cells: Iterable[Stored], leave_out: set[str]) -> dict[str, list[Stored]]:
    groups: dict[str, list[Stored]] = defaultdict(list)
    for cell in cells:
        groups[canonical({key: value for key, value in cell.specs.items() if key not in leave_out})].append(cell)
    return groups


def _about(first: Mapping[str, Any], second: Mapping[str, Any], path: str = "") -> dict[str, tuple[Any, Any]]:
    """Facts of run.json that differ, by dotted name, except those that differ in every run."""
    differing: dict[str, tuple[Any, Any]] = {}
    for key in sorted({*first, *second} - {"created", "sessions", "planned"}):
        here, there = first.get(key), second.get(key)
        if all(isinstance(side, Mapping | None) for side in (here, there)) and (here or there):
            differing |= _about(here or {}, there or {}, f"{path}{key}.")
        elif here != there:
            differing[f"{path}{key}"] = (here, there)
    return differing


def _within(value: float, interval: Summary) -> bool:
    return bool(np.isnan(value) and np.isnan(interval.value)) or interval.low <= value <= interval.high
