"""One clear line for an argument of the wrong kind, where a user calls a function."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

from troth.core.errors import TrothError


def of_kind(name: str, value: Any, kinds: type | tuple[type, ...], wanted: str) -> None:
    """Refuses a value that is of none of the kinds; numpy's whole numbers are whole numbers, too, a truth is not."""
    allowed = kinds if isinstance(kinds, tuple) else (kinds,)
    whole = int in allowed and isinstance(value, Integral) and not isinstance(value, bool)
    if not whole and not isinstance(value, tuple(kind for kind in allowed if kind is not int)):
        raise TrothError(f"{name} must be {wanted}, not {_shown(value)}")


def iterable(name: str, value: Any, wanted: str) -> None:
    """Refuses what holds no items."""
    of_kind(name, value, Iterable, wanted)


def methods(name: str, value: Any) -> None:
    """Refuses what is neither a list of methods, nor one of them by name, nor left out."""
    if value is not None:
        iterable(name, value, 'a list such as ["random", …], or "all"')


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 40 else text[:40] + '…'} ({type(value).__name__})"
