"""Methods of installed packages: entry points `troth.explainers` and `troth.metrics`, found by their names.

An installed package is the user's own choice, so such a name stands wherever a catalog name does.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from troth.core.errors import TrothError
from troth.core.user_calls import failure, said

KINDS = ("explainers", "metrics")


@cache
def _found(kind: str) -> dict[str, EntryPoint]:
    found = entry_points(group=f"troth.{kind}") if kind in KINDS else ()
    return {entry.name: entry for entry in sorted(found, key=lambda entry: entry.name) if entry.name.isidentifier()}


def names(kind: str) -> list[str]:
    """Names that installed packages offer; nothing is imported."""
    return list(_found(kind))


def summary(kind: str, name: str) -> str:
    """Where it comes from; its own words would have to be imported."""
    entry = _found(kind)[name]
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.module
    return f"From the installed package {package} ({entry.value})."


@cache
def find(kind: str, name: str) -> type[Any]:
    """The class that a package offers under a name."""
    entry = _found(kind)[name]
    try:
        cls = entry.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise failure(f"{name} ({entry.value}) cannot be imported: {said(error)}", error) from error
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        raise TrothError(f"{name} ({entry.value}) must be a dataclass that extends troth.{kind}'s base, not {cls!r}")
    return cls


def name_of(cls: type) -> str | None:
    """The name under which a package offers a class; None where it does not."""
    entries = ((name, entry) for kind in KINDS for name, entry in _found(kind).items())
    return next((name for name, entry in entries if entry.value == f"{cls.__module__}:{cls.__qualname__}"), None)
