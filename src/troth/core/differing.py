"""Where two plain values differ: field by field, with a tolerance for numbers that another machine moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Path = tuple[Any, ...]  # names of fields and places in lists
Tolerance = Callable[[Path], float]  # how far the numbers at a place may lie apart


class Difference(NamedTuple):
    """The place and the two values; a value that is not there is None, and `what` says so."""

    path: Path
    before: Any
    now: Any
    what: str = ""

    @property
    def place(self) -> str:
        """As a reader writes it: explanations[0].proof.chance"""
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return "".join(parts).lstrip(".")


def at(value: Any, path: Path) -> Any:
    """The value at a place."""
    for part in path:
        value = value[part]
    return value


def exact(path: Path) -> float:
    """No tolerance at all."""
    return 0.0


def differences(before: Any, now: Any, tolerance: Tolerance = exact, path: Path = ()) -> Iterator[Difference]:
    """Every place where two values of JSON differ.

    >>> [each.place for each in differences({"a": [1, 2.0]}, {"a": [1, 2.5]})]
    ['a[1]']
    """
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in [*before, *(name for name in now if name not in before)]:
            if name not in now or name not in before:
                what = "is not a field of it" if name not in now else "is missing"
                yield Difference((*path, name), before.get(name), now.get(name), what)
            else:
                yield from differences(before[name], now[name], tolerance, (*path, name))
    elif _is_list(before) and _is_list(now):
        if len(before) != len(now):
            yield Difference(path, before, now, f"has {len(before)} entries, not {len(now)}")
        else:
            for place, (one, other) in enumerate(zip(before, now, strict=True)):
                yield from differences(one, other, tolerance, (*path, place))
    elif _is_number(before) and _is_number(now):
        if not (before == now or (before != before and now != now) or abs(before - now) <= tolerance(path)):
            yield Difference(path, before, now)
    elif type(before) is not type(now) or before != now:
        yield Difference(path, before, now)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
