"""What a shell offers after TAB: names from the catalog, read from the files, so that nothing heavy is imported."""

from __future__ import annotations

from collections.abc import Callable

from troth.core import catalog


def names_of(kind: str) -> Callable[[str], list[str]]:
    """Completes a name of a kind, also the last one of a list: random,lea → random,leave_one_out."""

    def complete(incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in catalog.names(kind) if name.startswith(begun)]

    return complete


def names_in_lists(incomplete: str) -> list[str]:
    """What `troth list` takes: a kind, or any name."""
    names = ["datasets", *catalog.KINDS, *(name for kind in catalog.KINDS for name in catalog.names(kind))]
    return [name for name in names if name != "data" and name.startswith(incomplete)]
