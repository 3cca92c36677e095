"""Stored explanations as a report reads them: by seed and by example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from troth.store.measured import Key, example_keys, seed_groups
from troth.store.store import Store, Stored


@dataclass(frozen=True, eq=False)
class Text:
    """An example of the data."""

    id: str
    text: str
    pair: str | None
    rationale: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Explained:
    """One explanation of one example."""

    source: Text
    spans: tuple[tuple[int, int], ...]
    segments: tuple[int, ...]  # of every unit: 0 in the text, 1 in its pair
    scores: NDArray[np.float32]
    target: int
    signed: bool
    probabilities: tuple[float, ...]
    label: int | None
    truncated: bool
    note: str

    @cached_property
    def words(self) -> list[str]:
        texts = (self.source.text, self.source.pair or "")
        placed = zip(self.spans, self.segments, strict=True)
        return [texts[min(segment, 1)][start:end] for (start, end), segment in placed]


def texts(store: Store, explanations: Iterable[Stored]) -> dict[Key, Text]:
    """The examples that were explained; a run of an earlier format may have none."""
    found: dict[Key, Text] = {}
    parents = {cell.parents[0]: cell.specs.get("data_fingerprint", "") for cell in explanations if cell.parents}
    for name, fingerprint in parents.items():
        if not store.has(name):
            continue
        rows = store.table(name).to_pylist()
        for key, row in zip(example_keys(str(fingerprint), [row["example_id"] for row in rows]), rows, strict=True):
            rationale = zip(row["rationale_starts"] or (), row["rationale_ends"] or (), strict=True)
            found[key] = Text(row["example_id"], row["text"], row["text_pair"], tuple(rationale))
    return found


BySeed = Sequence[Mapping[Key, Explained]]  # of one explainer, the lowest seed first


def explained(store: Store, cells: Sequence[Stored], sources: Mapping[Key, Text]) -> BySeed:
    """One explainer's explanations by seed."""
    return [_of_seed(store, some, sources) for some in seed_groups(cells)]


def _of_seed(store: Store, cells: Sequence[Stored], sources: Mapping[Key, Text]) -> dict[Key, Explained]:
    """The larger cell's where two hold the same example."""
    found: dict[Key, Explained] = {}
    for cell in sorted(cells, key=lambda cell: cell.rows):
        rows = store.table(cell.name).to_pylist()
        fingerprint = str(cell.specs.get("data_fingerprint", ""))
        for key, row in zip(example_keys(fingerprint, [row["example_id"] for row in rows]), rows, strict=True):
            if key in sources and row["scores"] is not None:
                found[key] = _explained(row, sources[key])
    return found


def _explained(row: dict[str, Any], source: Text) -> Explained:
    return Explained(
        source,
        tuple(zip(row["starts"], row["ends"], strict=True)),
        tuple(row["segments"] or [0] * len(row["starts"])),
        np.nan_to_num(np.array(row["scores"], np.float32)),
        row["target"] or 0,
        bool(row["signed"]),
        tuple(row["probabilities"] or ()),
        row["label"],
        bool(row["truncated"]),
        row["note"] or "",
    )
