"""The scores of one explainer by one metric, for each seed and the same examples in the same order, and the clusters of
examples that count as one.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Self

import numpy as np

from troth.core.copies import Ints, clusters, numbered
from troth.core.types import Score
from troth.metrics import NOT_MEASURED, Metric, Summary
from troth.statistics import Floats
from troth.store.cells import canonical
from troth.store.specs import SourceSpec, names
from troth.store.store import Store, Stored
from troth.store.tables import table_to_scores

Key = tuple[str, str, int]  # fingerprint of the data, id of the example, and its occurrence among examples with this id
_MISSING = Score(math.nan, {}, NOT_MEASURED)
_OF_DATA = (*names(SourceSpec), "first")


@dataclass(frozen=True, eq=False)
class Measured:
    """The scores of stored metric cells by seed; NaN for an example that a seed did not measure."""

    keys: tuple[Key, ...]  # of the examples
    by_seed: tuple[tuple[Score, ...], ...]  # [seeds][examples]

    @classmethod
    def read(cls, store: Store, cells: Iterable[Stored]) -> Self:
        """Combines several cells. Cells that differ only in their examples belong to the same seed."""
        seeds: dict[str, dict[Key, Score]] = {}
        # The larger cell comes last: an example in two cells counts once.
        for cell in sorted(cells, key=lambda cell: cell.rows):
            table = store.table(cell.name)
            keys = example_keys(str(cell.specs.get("data_fingerprint", "")), table.column("example_id").to_pylist())
            scores = zip(keys, table_to_scores(table), strict=True)
            seeds.setdefault(_seed_of(cell), {}).update(scores)
        order = joined(seeds.values())
        return cls(order, tuple(tuple(seed.get(key, _MISSING) for key in order) for seed in seeds.values()))

    def values(self, keys: Sequence[Key]) -> Floats:
        """[seeds, keys] the values of these examples, NaN where undefined or not measured."""
        places = {key: place for place, key in enumerate(self.keys)}
        values = [[seed[places[key]].value if key in places else math.nan for key in keys] for seed in self.by_seed]
        return np.array(values, np.float64).reshape(len(self.by_seed), len(keys))


@dataclass(frozen=True, eq=False)
class Clusters:
    """The examples that count as one: copies of one text, and examples of one group that the user named."""

    by_example: Mapping[Key, Hashable] = field(default_factory=dict)
    has_groups: bool = False

    @classmethod
    def read(cls, store: Store, cells: Iterable[Stored]) -> Self:
        """The clusters of the data behind explanations or scores; runs of an earlier format may hold no data."""
        # The data cell is the first parent of an explanation and the second of a metric.
        parents = {
            name: str(cell.specs.get("data_fingerprint", ""))
            for cell in cells
            for name in cell.parents[cell.kind == "metric" :][:1]
            if store.has(name)
        }
        by_example: dict[Key, Hashable] = {}
        has_groups = False
        for name, fingerprint in parents.items():
            table = store.table(name)
            ids, texts, pairs = (table.column(column).to_pylist() for column in ("example_id", "text", "text_pair"))
            groups = table.column("group_name").to_pylist() if "group_name" in table.column_names else None
            has_groups |= groups is not None
            together = ((name, number) for number in clusters(texts, pairs, groups).tolist())
            by_example.update(zip(example_keys(fingerprint, ids), together, strict=True))
        return cls(by_example, has_groups)

    def of(self, keys: Sequence[Key]) -> Ints:
        """[keys] the index of each example's cluster; an example whose text is unknown is a cluster of its own."""
        return numbered(self.by_example.get(key, key) for key in keys)

    def summary(self, metric: Metric, scores: Measured) -> Summary:
        """The metric's summary over clusters, which are passed to `summarize` only if one has several examples."""
        together = self.of(scores.keys)
        if len(np.unique(together)) == len(together):
            return metric.summarize(*scores.by_seed)
        return metric.summarize(*scores.by_seed, clusters=together)


def seed_groups(cells: Iterable[Stored]) -> list[list[Stored]]:
    """Groups cells by seed, the lowest first; cells of one seed differ only in their examples."""
    groups: dict[tuple[int, str], list[Stored]] = {}
    for cell in cells:
        groups.setdefault((cell.specs.get("seed") or 0, _seed_of(cell)), []).append(cell)
    return [groups[key] for key in sorted(groups)]


def _seed_of(cell: Stored) -> str:
    return canonical({key: value for key, value in cell.specs.items() if key not in _OF_DATA})


def joined(many: Iterable[Collection[Key]]) -> tuple[Key, ...]:
    """All examples of several cells, each once, in the order of the largest cell."""
    return tuple(dict.fromkeys(key for keys in sorted(many, key=len, reverse=True) for key in keys))


def example_keys(fingerprint: str, example_ids: Sequence[str]) -> list[Key]:
    """Keys of examples that are unique even if an id occurs twice."""
    seen: defaultdict[str, Iterator[int]] = defaultdict(count)
    return [(fingerprint, example_id, next(seen[example_id])) for example_id in example_ids]
