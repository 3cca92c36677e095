"""Estimates how long cells take, from similar cells and from the number of model passes that each needs."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from troth.store.cells import Cell
from troth.sweep.passes import passes_of

_SAME = ("metric", "explainer", "recipe")  # specs that name the methods of a cell
_UNITS = 24  # assumed units of a text, when only the ratio of two methods matters
_BESIDE = 6  # reading, encoding and storing an example costs as much as this many passes
_PASSES = ("passes",)  # common key of explanations and metrics, which both spend most of their time in the model

Methods = tuple[Any, ...]
Place = tuple[Any, Any]  # model and data


@dataclass
class _Sums:
    """Totals over measured cells: seconds and work, and the passes of those that counted them."""

    seconds: float = 0.0
    work: float = 0.0
    passes: float = 0.0
    counted: float = 0.0  # work of the cells that counted their passes


class Pace:
    """Seconds and passes per unit of work of measured cells; for other cells, those of the most similar ones.

    Timings of the same method on another model or other data are scaled by how much faster or slower passes are there.
    """

    def __init__(self) -> None:
        self._seen: dict[Methods, dict[Place, _Sums]] = defaultdict(dict)

    def learn(
        self, kind: str, specs: Mapping[str, Any], seconds: float, examples: float | None = None,
        passes: int | None = None,
    ) -> None:  # fmt: skip
        work = (examples or _examples(specs)) * _weight(specs)
        for methods in _likenesses(kind, specs):
            sums = self._seen[methods].setdefault(_place(specs), _Sums())
            sums.seconds += seconds
            sums.work += work
            if passes is not None:
                sums.passes += passes
                sums.counted += work

    def knows(self, cell: Cell, *, exactly: bool = False, here: bool = False) -> bool:
        """Whether a cell of the same method was measured: `exactly`, with its explainer; `here`, on its data."""
        seen = self._seen.get(list(_likenesses(cell.kind, cell.specs))[0 if exactly or here else 1], {})
        return _place(cell.specs) in seen if here else bool(seen)

    def expect(self, cell: Cell) -> float | None:
        """Expected seconds of a cell; None if no similar cell was measured."""
        place, speeds = _place(cell.specs), self._seen.get(_PASSES, {})
        for methods in _likenesses(cell.kind, cell.specs):
            seen = self._seen.get(methods)
            if not seen:
                continue
            if place in seen:
                rate = seen[place].seconds / seen[place].work
            else:
                scaled = sum(sums.seconds * _ratio(speeds, place, other) for other, sums in seen.items())
                rate = scaled / sum(sums.work for sums in seen.values())
            return rate * _examples(cell.specs) * _weight(cell.specs)
        return None

    def expect_passes(self, cell: Cell) -> float:
        """Expected model passes of a cell, as counted in cells of the same method, or else computed."""
        if "explainer_full" not in cell.specs:
            return 0.0
        seen = self._seen.get(next(_likenesses(cell.kind, cell.specs)), {})
        some = [seen[_place(cell.specs)]] if _place(cell.specs) in seen else list(seen.values())
        if counted := sum(sums.counted for sums in some):
            rate = sum(sums.passes for sums in some) / counted
            return rate * _examples(cell.specs) * _weight(cell.specs)
        return float(_examples(cell.specs) * passes_of(cell.specs, _UNITS))


class Remaining:
    """Unfinished cells, counted by similarity, so that the remaining time is cheap to compute."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        self._counts: Counter[Methods] = Counter()
        self._samples: dict[Methods, Cell] = {}
        for cell in cells:
            self._counts[_likeness(cell)] += 1
            self._samples.setdefault(_likeness(cell), cell)

    def remove(self, cell: Cell) -> None:
        self._counts[_likeness(cell)] -= 1

    def seconds(self, pace: Pace) -> float | None:
        """Total seconds of all cells, one after the other; cells without an estimate count as the mean."""
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


def _ratio(speeds: Mapping[Place, _Sums], place: Place, other: Place) -> float:
    """How much longer a pass takes at one place than at another; 1 if unknown."""
    if place not in speeds or other not in speeds or not speeds[other].seconds:
        return 1.0
    return (speeds[place].seconds / speeds[place].work) / (speeds[other].seconds / speeds[other].work)


def _likeness(cell: Cell) -> Methods:
    return (*next(_likenesses(cell.kind, cell.specs)), *_place(cell.specs), _examples(cell.specs))


def _likenesses(kind: str, specs: Mapping[str, Any]) -> Iterator[Methods]:
    methods = [specs.get(name, specs.get(f"{name}_full")) for name in _SAME]  # cells of studies have only full specs
    yield (kind, *methods)
    yield (kind, next((method for method in methods if method is not None), None))
    yield (kind,)
    if "explainer_full" in specs:
        yield _PASSES


def _place(specs: Mapping[str, Any]) -> Place:
    return specs.get("model"), specs.get("data")


def _examples(specs: Mapping[str, Any]) -> int:
    numbers = [int(specs[name]) for name in ("examples", "first") if specs.get(name)]
    return min(numbers, default=1)


def _weight(specs: Mapping[str, Any]) -> int:
    """The work of one example, in model passes; 1 for cells that are neither explanations nor metrics."""
    return _BESIDE + passes_of(specs, _UNITS) if "explainer_full" in specs else 1
