"""Is an attribution function right? Its properties are checked on models with known answers.

A property is a function in one of the files of `properties/`; its docstring says what must hold. Nothing is registered:
every public function in the files is a property, in the order of `GROUPS`.
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
_FIRST = ("answers", "repeatable")  # without these, nothing can be checked
Check = Callable[[Subject], None]


@dataclass(frozen=True)
class Property:
    name: str
    group: str
    says: str  # what must hold, in one sentence
    check: Check
    claims: tuple[str, ...]  # checked only if one of these is claimed; if empty, always
    unless: tuple[str, ...]  # not checked if one of these is claimed
    after: tuple[str, ...]  # cannot be checked if one of these fails


def rule(
    *, claims: Sequence[str] = (), unless: Sequence[str] = (), after: Sequence[str] = ()
) -> Callable[[Check], Check]:
    """Checks a property only for methods that claim one of `claims` and none of `unless`, if all of `after` hold."""

    def mark(check: Check) -> Check:
        check.rule = (tuple(claims), tuple(unless), tuple(after))  # type: ignore[attr-defined]
        return check

    return mark


def find_properties(only: Sequence[str] | None = None) -> list[Property]:
    """All properties, or the named ones and those that they depend on."""
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
