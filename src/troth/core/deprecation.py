"""The one way an old name goes: it works, and warns once per process with the name to use instead."""

from __future__ import annotations

import warnings

_WARNED: set[str] = set()


def warn_renamed(old: str, new: str, *, stacklevel: int = 2) -> None:
    """`stacklevel` as in warnings.warn, counted from the caller: 2 is who called it."""
    if old not in _WARNED:
        _WARNED.add(old)
        warnings.warn(f"{old} is now {new}", DeprecationWarning, stacklevel=stacklevel + 1)
