"""Names and lists as people read them, in tables and sentences alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from troth.core import catalog


def short_names(specs: Iterable[str]) -> dict[str, str]:
    """Each without its options, where no other has the same name; only another masking than its own always shows.

    >>> short_names(["lime(samples=9)", "gradient", "gradient(norm='l1')"])
    {'lime(samples=9)': 'lime', 'gradient': 'gradient', "gradient(norm='l1')": "gradient(norm='l1')"}
    >>> short_names(["log_odds(ratio=0.1, masking='zero')", "deletion"])
    {"log_odds(ratio=0.1, masking='zero')": 'log_odds by zero', 'deletion': 'deletion'}
    """
    short = {spec: _short(spec) for spec in specs}
    same = Counter(short.values())
    return {spec: name if same[name] == 1 else spec for spec, name in short.items()}


def _short(spec: str) -> str:
    name, options = catalog.parse(spec)
    return f"{name} by {options['masking']}" if "masking" in options else name


def options_note(specs: Sequence[str]) -> list[str]:
    """The full specs of those whose short names do not say all; a masking alone is said by "by mask_token"."""
    hidden = [
        spec for spec, name in short_names(specs).items() if spec != name and set(catalog.parse(spec)[1]) != {"masking"}
    ]
    return [f"Options: {', '.join(hidden)}."] if hidden else []


def folded(reasons: Mapping[str, str]) -> list[str]:
    """What shares a reason, in one line each.

    >>> folded({"a": "too slow", "b": "no labels", "c": "too slow"})
    ['a, c: too slow', 'b: no labels']
    """
    by_reason: dict[str, list[str]] = {}
    for what, why in reasons.items():
        by_reason.setdefault(why, []).append(what)
    return [f"{', '.join(some)}: {why}" for why, some in by_reason.items()]


def joined(names: Sequence[str], most: int | None = None) -> str:
    """A list as people write it; beyond `most` names, how many more there are.

    >>> joined(["a", "b", "c"]), joined(["a", "b", "c", "d"], most=3), joined(["a", "b", "c"], most=3)
    ('a, b and c', 'a, b and 2 more', 'a, b and c')
    """
    if most is not None and len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
