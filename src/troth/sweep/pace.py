"""How long cells take, judged by those like them and by how many passes of the model each needs."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from troth.store.cells import Cell
from troth.sweep.passes import passes_of

_SAME = ("metric", "explainer", "recipe")  # specs that name the methods of a cell
_UNITS = 24  # of a text, where only the relation of two methods counts
_BESIDE = 6  # passes that reading, encoding and storing an example is worth
_PASSES = ("passes",)  # an explanation and a metric both mostly wait for the model

Methods = tuple[Any, ...]
Place = tuple[Any, Any]  # model and data


@dataclass
class _Sums:
    """Over cells that were seen: seconds and work, and the passes of those that counted them."""

    seconds: float = 0.0
    work: float = 0.0
    passes: float = 0.0
    counted: float = 0.0  # work of the cells that counted their passes


class Pace:
    """Seconds and passes per unit of work of cells that were seen; for others, of those most like them.

    The same method on another model or other data counts by how much faster or slower everything is there.
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
        """Whether a cell of the same method was seen: `exactly`, with the same explainer; `here`, on the same data."""
        seen = self._seen.get(list(_likenesses(cell.kind, cell.specs))[0 if exactly or here else 1], {})
        return _place(cell.specs) in seen if here else bool(seen)

    def expect(self, cell: Cell) -> float | None:
        """Seconds a cell will take; None where nothing like it was seen."""
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
        """Passes of the model that a cell will take, as counted in cells of the same method, else worked out."""
        if "explainer_full" not in cell.specs:
            return 0.0
        seen = self._seen.get(next(_likenesses(cell.kind, cell.specs)), {})
        some = [seen[_place(cell.specs)]] if _place(cell.specs) in seen else list(seen.values())
        if counted := sum(sums.counted for sums in some):
            rate = sum(sums.passes for sums in some) / counted
            return rate * _examples(cell.specs) * _weight(cell.specs)
        return float(_examples(cell.specs) * passes_of(cell.specs, _UNITS))


class Remaining:
    """Cells still to be done, counted by likeness, so that the time left is cheap to work out."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        self._counts: Counter[Methods] = Counter()
        self._samples: dict[Methods, Cell] = {}
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


def _ratio(speeds: Mapping[Place, _Sums], place: Place, other: Place) -> float:
    """How many times as long a pass takes at a place as at another; 1 where that is not known."""
    if place not in speeds or other not in speeds or not speeds[other].seconds:
        return 1.0
    return (speeds[place].seconds / speeds[place].work) / (speeds[other].seconds / speeds[other].work)


def _likeness(cell: Cell) -> Methods:
    return (*next(_likenesses(cell.kind, cell.specs)), *_place(cell.specs), _examples(cell.specs))


def _likenesses(kind: str, specs: Mapping[str, Any]) -> Iterator[Methods]:
    methods = [specs.get(name) for name in _SAME]
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
    """How much work an example is, in passes of the model; 1 for what is neither an explanation nor a metric."""
    return _BESIDE + passes_of(specs, _UNITS) if "explainer_full" in specs else 1
