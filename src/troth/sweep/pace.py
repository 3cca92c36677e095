"""How long cells take, judged by those like them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from troth.store.cells import Cell

_SAME = ("metric", "explainer", "recipe", "model")  # specs that decide how long an example takes


class Pace:
    """Seconds per example, by likeness: the same method on the same model, the same method, the same kind."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[Any, ...], float] = defaultdict(float)
        self._examples: Counter[tuple[Any, ...]] = Counter()

    def learn(self, kind: str, specs: Mapping[str, Any], seconds: float, examples: int | None = None) -> None:
        for key in _likenesses(kind, specs):
            self._seconds[key] += seconds
            self._examples[key] += examples or _examples(specs)

    def knows(self, cell: Cell) -> bool:
        """Whether a cell of the same method has been seen."""
        return list(_likenesses(cell.kind, cell.specs))[-2] in self._examples

    def expect(self, cell: Cell) -> float | None:
        """Seconds a cell will take; None where nothing like it was seen."""
        for key in _likenesses(cell.kind, cell.specs):
            if self._examples[key]:
                return self._seconds[key] / self._examples[key] * _examples(cell.specs)
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


def _examples(specs: Mapping[str, Any]) -> int:
    return int(specs.get("examples", 1)) or 1
