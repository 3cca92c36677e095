"""How long cells take, judged by those like them and by how often each asks the model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from troth.core import catalog
from troth.core.errors import TrothError
from troth.explainers import Explainer
from troth.metrics import Metric
from troth.store.cells import Cell

_SAME = ("metric", "explainer", "recipe", "model")  # specs that decide how long an example takes
_UNITS = 24  # of a text, where only the relation of two methods counts
_BESIDE = 6  # passes that reading, encoding and storing an example is worth
_MEASURING = 8  # passes of a metric, about
_SELDOM = 0.85  # of the explanations a metric asks for at most: the last is for the few that were of another class


class Pace:
    """Seconds per pass, by likeness: the same method on the same model, the same method, the same kind, any kind."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[Any, ...], float] = defaultdict(float)
        self._passes: Counter[tuple[Any, ...]] = Counter()

    def learn(self, kind: str, specs: Mapping[str, Any], seconds: float, examples: int | None = None) -> None:
        for key in _likenesses(kind, specs):
            self._seconds[key] += seconds
            self._passes[key] += (examples or _examples(specs)) * _weight(specs)

    def knows(self, cell: Cell) -> bool:
        """Whether a cell of the same method has been seen."""
        return list(_likenesses(cell.kind, cell.specs))[2] in self._passes

    def expect(self, cell: Cell) -> float | None:
        """Seconds a cell will take; None where nothing like it was seen."""
        for key in _likenesses(cell.kind, cell.specs):
            if self._passes[key]:
                return self._seconds[key] / self._passes[key] * _examples(cell.specs) * _weight(cell.specs)
        return None


class Remaining:
    """Cells still to be done, counted by likeness, so that the time left is cheap to work out."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        self._counts: Counter[tuple[Any, ...]] = Counter()
        self._samples: dict[tuple[Any, ...], Cell] = {}
        for cell in cells:
            self._counts[_likeness(cell)] += 1
            self._samples.setdefault(_likeness(cell), cell)

    def remove(self, cell: Cell) -> None:
        self._counts[_likeness(cell)] -= 1

    def seconds(self, pace: Pace) -> float | None:
        """What all of them will take one after the other; those nothing is known of count as the others' mean."""
        estimated = unknown = 0
        total = 0.0
        for key, count in self._counts.items():
            seconds = pace.expect(self._samples[key])
            if seconds is None:
                unknown += count
            else:
                estimated, total = estimated + count, total + seconds * count
        if not estimated:
            return None if unknown else 0.0
        return total / estimated * (estimated + unknown)


def _likeness(cell: Cell) -> tuple[Any, ...]:
    return (*next(_likenesses(cell.kind, cell.specs)), _examples(cell.specs))


def _likenesses(kind: str, specs: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    *methods, model = (specs.get(name) for name in _SAME)
    yield (kind, *methods, model)
    yield (kind, *methods)
    yield (kind, next((method for method in methods if method is not None), None))
    yield (kind,)
    if "explainer_full" in specs:
        yield ("passes",)  # an explanation and a metric both mostly wait for the model


def _examples(specs: Mapping[str, Any]) -> int:
    numbers = [int(specs[name]) for name in ("examples", "first") if specs.get(name)]
    return min(numbers, default=1)


def _weight(specs: Mapping[str, Any]) -> int:
    """How much work an example is, in passes of the model; 1 for what is neither an explanation nor a metric."""
    explainer, metric = specs.get("explainer_full"), specs.get("metric_full")
    return 1 if explainer is None else _passes(str(explainer), None if metric is None else str(metric))


@lru_cache(maxsize=4096)
def _passes(explainer: str, metric: str | None) -> int:
    try:
        method: Explainer = catalog.build("explainers", explainer)
        explaining = method.passes(_UNITS)
        if metric is None:
            return _BESIDE + explaining
        judge: Metric = catalog.build("metrics", metric)
        again = judge.for_explainer(method).explanations()
        return _BESIDE + _MEASURING + round(max(0, again - _SELDOM) * explaining)
    except (TrothError, OSError):  # a method of the user's own: nothing is known of it before it has run
        return _BESIDE + _MEASURING
