"""Names and lists in the form that people read, in tables and sentences alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from troth.core import catalog, user_code


def short_names(specs: Iterable[str]) -> dict[str, str]:
    """Specs without their options where the names stay unique; a masking that is not the default is always shown.

    >>> short_names(["lime(samples=9)", "gradient", "gradient(norm='l1')"])
    {'lime(samples=9)': 'lime', 'gradient': 'gradient', "gradient(norm='l1')": "gradient(norm='l1')"}
    >>> short_names(["log_odds(ratio=0.1, masking='zero')", "deletion"])
    {"log_odds(ratio=0.1, masking='zero')": 'log_odds by zero', 'deletion': 'deletion'}
    """
    short = {spec: _short(spec) for spec in specs}
    same = Counter(short.values())
    return {spec: name if same[name] == 1 else spec for spec, name in short.items()}


def _short(spec: str) -> str:
    name, options = _parsed(spec)
    return f"{name} by {options['masking']}" if "masking" in options else name


def _parsed(spec: str) -> tuple[str, dict[str, Any]]:
    """The name and options of a spec. Code keeps its file's name where the catalog has a method of the same name."""
    reference = user_code.read(spec)
    if reference is None:
        return catalog.parse(spec)
    return reference.head, catalog.parse(reference.name + reference.options)[1]


def options_note(specs: Sequence[str]) -> list[str]:
    """The full specs of those whose short names hide options; a masking alone is already shown as "by mask_token"."""
    hidden = [
        spec for spec, name in short_names(specs).items() if spec != name and set(_parsed(spec)[1]) != {"masking"}
    ]
    return [f"Options: {', '.join(hidden)}."] if hidden else []


def folded(reasons: Mapping[str, str]) -> list[str]:
    """One line for all entries with the same reason.

    >>> folded({"a": "too slow", "b": "no labels", "c": "too slow"})
    ['a, c: too slow', 'b: no labels']
    """
    by_reason: dict[str, list[str]] = {}
    for what, why in reasons.items():
        by_reason.setdefault(why, []).append(what)
    return [f"{', '.join(some)}: {why}" for why, some in by_reason.items()]


def joined(names: Sequence[str], most: int | None = None) -> str:
    """Joins a list with commas and "and"; beyond `most` names, with the number of further names.

    >>> joined(["a", "b", "c"]), joined(["a", "b", "c", "d"], most=3), joined(["a", "b", "c"], most=3)
    ('a, b and c', 'a, b and 2 more', 'a, b and c')
    """
    if most is not None and len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def fitting(names: Sequence[str], room: int) -> str:
    """Joins as many names as fit into `room` characters; the rest as a number.

    >>> fitting(["deletion", "insertion", "log_odds"], 40), fitting(["deletion", "insertion", "log_odds"], 30)
    ('deletion, insertion and log_odds', 'deletion and 2 more')
    >>> fitting(["deletion", "insertion", "log_odds"], 10)
    '3 metrics'
    """
    for most in range(len(names), 1 if len(names) > 1 else 0, -1):
        if len(text := joined(names, most)) <= room:
            return text
    return f"{len(names)} metrics" if len(names) > 1 else names[0]
