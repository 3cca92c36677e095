"""Stored explanations as a report reads them: by seed and by example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from troth.core.types import Example
from troth.store.measured import Key, example_keys, seed_groups
from troth.store.store import Store, Stored
from troth.store.tables import table_to_examples


@dataclass(frozen=True, eq=False)
class Explained:
    """One explanation of one example."""

    source: Example
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
        texts = (self.source.text, self.source.text_pair or "")
        placed = zip(self.spans, self.segments, strict=True)
        return [texts[min(segment, 1)][start:end] for (start, end), segment in placed]


def texts(store: Store, explanations: Iterable[Stored]) -> dict[Key, Example]:
    """The examples that were explained; a run of an earlier format may have none."""
    by_key: dict[Key, Example] = {}
    parents = {cell.parents[0]: cell.specs.get("data_fingerprint", "") for cell in explanations if cell.parents}
    for name, fingerprint in parents.items():
        if store.has(name):
            examples = table_to_examples(store.table(name))
            keys = example_keys(str(fingerprint), [example.id for example in examples])
            by_key.update(zip(keys, examples, strict=True))
    return by_key


BySeed = Sequence[Mapping[Key, Explained]]  # of one explainer, the lowest seed first


def explained(store: Store, cells: Sequence[Stored], sources: Mapping[Key, Example]) -> BySeed:
    """One explainer's explanations by seed; where two cells of a seed hold the same example, the larger cell's."""
    by_seed: list[dict[Key, Explained]] = []
    for some in seed_groups(cells):
        by_seed.append({})
        for cell in sorted(some, key=lambda cell: cell.rows):
            rows = store.table(cell.name).to_pylist()
            keys = example_keys(str(cell.specs.get("data_fingerprint", "")), [row["example_id"] for row in rows])
            for key, row in zip(keys, rows, strict=True):
                if key in sources and row["scores"] is not None:
                    by_seed[-1][key] = _explained(row, sources[key])
    return by_seed


def _explained(row: dict[str, Any], source: Example) -> Explained:
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
