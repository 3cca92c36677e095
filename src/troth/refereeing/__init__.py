"""Is an attribution function right? Properties of it, checked on models with known answers.

A property is a function in one of the files of `properties/`; its docstring says what must hold. Nothing is registered:
the files are read, in the order of `GROUPS`, and every public function in them is a property.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from troth.core.errors import unknown
from troth.refereeing.subject import Subject

GROUPS = ("basics", "batches", "values", "texts", "state")
_FIRST = ("answers", "repeatable")  # without these nothing can be judged
Check = Callable[[Subject], None]


@dataclass(frozen=True)
class Property:
    name: str
    group: str
    says: str  # what must hold, in a sentence
    check: Check
    claims: tuple[str, ...]  # it is checked where one of these is claimed; without any, always
    unless: tuple[str, ...]  # it is not checked where one of these is claimed
    after: tuple[str, ...]  # where one of these does not hold, this cannot be judged


def rule(
    *, claims: Sequence[str] = (), unless: Sequence[str] = (), after: Sequence[str] = ()
) -> Callable[[Check], Check]:
    """Where a property is checked: for whoever claims one of `claims`, not `unless`, and once all of `after` hold."""

    def mark(check: Check) -> Check:
        check.rule = (tuple(claims), tuple(unless), tuple(after))  # type: ignore[attr-defined]
        return check

    return mark


def properties(only: Sequence[str] | None = None) -> list[Property]:
    """All of them, or those of these names and what must hold before they can be judged."""
    found = {each.name: each for group in GROUPS for each in _in_group(group)}
    for name in only or ():
        if name not in found:
            raise unknown("property", name, found)
    wanted = set(found if only is None else only)
    while more := {before for name in wanted for before in found[name].after} - wanted:
        wanted |= more
    return [each for name, each in found.items() if name in wanted]


def _in_group(group: str) -> list[Property]:
    module = importlib.import_module(f"troth.refereeing.properties.{group}")
    result = []
    for name, check in vars(module).items():
        if inspect.isfunction(check) and check.__module__ == module.__name__ and not name.startswith("_"):
            claims, unless, after = getattr(check, "rule", ((), (), ()))
            before = tuple(first for first in _FIRST if name not in _FIRST) + after
            says = " ".join((check.__doc__ or "").split())
            result.append(Property(name, group, says, check, claims, unless, before))
    return result


def __getattr__(name: str) -> Any:
    if name == "referee":  # the verb imports this module
        return importlib.import_module("troth.refereeing.verb").referee
    raise AttributeError(name)
