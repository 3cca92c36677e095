"""Data, which are examples with a name, and what a catalog entry says about itself before it loads any."""

from __future__ import annotations

import hashlib
import html as markup
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar, overload

import numpy as np

from troth.core import arguments, catalog
from troth.core.display import Shown, counted, more, short, some, table
from troth.core.errors import NoSplitError, TrothError, unknown
from troth.core.types import Example

_SHOWN = 5  # examples in a notebook
_SPLIT_NAMES = {"val": "validation", "valid": "validation", "validate": "validation", "dev": "validation"}


@dataclass(frozen=True, eq=False, repr=False)
class Data(Shown, Sequence[Example]):
    """The examples of one split, the names of their classes (empty if unknown) and notes on guesses and omissions."""

    name: str
    examples: Sequence[Example]
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    split: str = ""
    whole: Sequence[Example] = field(default=(), repr=False)  # the examples before a limit was applied

    def __len__(self) -> int:
        return len(self.examples)

    @overload
    def __getitem__(self, place: int) -> Example: ...
    @overload
    def __getitem__(self, place: slice) -> Data: ...
    def __getitem__(self, place: int | slice) -> Example | Data:
        return replace(self, examples=self.examples[place]) if isinstance(place, slice) else self.examples[place]

    def _line(self) -> str:
        split = f", {self.split}" if self.split else ""
        counts = Counter(self._label(example) for example in self.examples if example.label is not None)
        by_class = [f"{name} {count:,}" for name, count in counts.most_common()]
        return (
            f"{self.name}{split}: {counted(len(self), 'example')}{'; ' * bool(by_class)}{', '.join(some(by_class, 6))}"
        )

    def _parts(self) -> Iterator[str]:
        shown = self.examples[:_SHOWN]
        columns = {
            "id": [example.id for example in shown],
            "text": [short(example.text, 200) for example in shown],
            "text_pair": [short(example.text_pair or "", 200) for example in shown],
            "label": [self._label(example) for example in shown],
        }
        used = {name: values for name, values in columns.items() if any(values)}
        yield table(self._line(), list(used), zip(*used.values(), strict=True))
        yield more(len(self), _SHOWN)
        yield f'<p class="muted">{markup.escape("; ".join(self.notes))}</p>' if self.notes else ""

    def _label(self, example: Example) -> str:
        """The names of an example's classes, as far as they are known."""
        own = example.label if isinstance(example.label, tuple) else () if example.label is None else (example.label,)
        known = range(len(self.labels))
        return ", ".join(self.labels[each] if isinstance(each, int) and each in known else str(each) for each in own)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the examples in their order."""
        digest = hashlib.blake2b(digest_size=16)
        for example in self.examples:
            parts = [example.id, example.text, example.text_pair, example.label, example.rationale]
            parts += [] if example.group is None else [example.group]
            digest.update(json.dumps(parts).encode() + b"\n")
        return digest.hexdigest()

    def limit(self, n: int, seed: int | None = None) -> Data:
        """The first n examples, in order or after a shuffle with a seed; fewer if there are fewer."""
        arguments.of_kind("limit", n, int, "a whole number")
        if n < 1:
            raise TrothError(f"limit must be at least 1, not {n}")
        order = range(len(self))[:n] if seed is None else np.random.default_rng(seed).permutation(len(self))[:n]
        return replace(self, examples=[self.examples[place] for place in order], whole=self.examples)

    def sample(self, n: int, seed: int = 0) -> Data:
        """A stratified sample of n examples, drawn with a seed, in their original order; fewer if there are fewer."""
        if n < 1:
            raise TrothError(f"limit must be at least 1, not {n}")
        if n >= len(self):
            return self
        classes: dict[object, list[int]] = {}
        for place, example in enumerate(self.examples):
            classes.setdefault(example.label, []).append(place)
        generator = np.random.default_rng(seed)
        chosen: list[int] = []
        counts = shared_out(n, [len(places) for places in classes.values()])
        for places, count in zip(classes.values(), counts, strict=True):
            chosen += generator.permutation(places)[:count].tolist()
        by_class = "" if len(classes) == 1 else ", every class by its share"
        note = f"{n:,} of {len(self):,} examples, drawn with seed {seed}{by_class}"
        drawn = [self.examples[place] for place in sorted(chosen)]
        return replace(self, examples=drawn, whole=self.examples, notes=(*self.notes, note))


def shared_out(n: int, sizes: Sequence[int]) -> list[int]:
    """n in whole parts as near as can be to the shares of the sizes: the largest remainders are rounded up.

    >>> shared_out(10, [60, 25, 15])
    [6, 3, 1]
    """
    exact = np.array(sizes) * n / sum(sizes)
    counts = np.floor(exact).astype(int)
    missing = n - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:missing]] += 1
    return [int(count) for count in counts]


def rows(**splits: int | None) -> Mapping[str, int | None]:
    """The splits of an entry with their official number of rows, None if it is unknown."""
    return MappingProxyType(splits)


@dataclass(frozen=True)
class Dataset(ABC):
    """A catalog entry; an instance is its configuration and holds no examples."""

    labels: ClassVar[tuple[str, ...]]
    splits: ClassVar[Mapping[str, int | None]]
    metric: ClassVar[str] = "accuracy"  # the usual score of a model: accuracy, macro_f1, micro_f1 or matthews
    text_column: ClassVar[str] = "text"  # the source's column that becomes `text`, which is explained and erased
    auxiliary: ClassVar[str | None] = None  # the source's column that becomes `text_pair`, which is never erased
    license: ClassVar[str] = ""
    sorted_by_label: ClassVar[bool] = False  # so a limit shuffles first

    @property
    def name(self) -> str:
        return catalog.spec(self)

    @property
    def split_names(self) -> tuple[str, ...]:
        return tuple(self.splits)

    def load(self, split: str | None = None) -> Data:
        """The examples of a split; by default those for evaluation: validation, else test, else the only split."""
        return self.read(choose_split(self.name, self.split_names, split))

    @abstractmethod
    def read(self, split: str) -> Data:
        """The examples of an existing split."""


def standard_split(name: str) -> str:
    """The usual name of a split.

    >>> standard_split("dev")
    'validation'
    """
    return _SPLIT_NAMES.get(name.lower(), name)


def choose_split(source: str, names: Iterable[str], wanted: str | None) -> str:
    """The requested split, or the one for evaluation."""
    known = list(names)
    if wanted is not None:
        arguments.of_kind("split", wanted, str, "the name of a split")
        for name in (wanted, standard_split(wanted)):
            if name in known:
                return name
        raise NoSplitError(f"{source}: {unknown('split', wanted, known)}")
    for name in ("validation", "test"):
        if name in known:
            return name
    if len(known) == 1:
        return known[0]
    raise NoSplitError(f"{source}: which split? there are: {', '.join(sorted(known))}")


def hold_out(data: Data, share: float) -> tuple[Data, Data]:
    """Divides the examples; the second part has the given share and is the same for every seed, so that seeds are
    comparable.
    """
    if not 0 < share < 1:
        raise TrothError(f"hold_out must be a share between 0 and 1, not {share}")
    count = round(len(data) * share)
    if not 0 < count < len(data):
        raise TrothError(f"{len(data)} examples of {data.name} are too few to hold out {share:.0%} of them")
    order = np.random.default_rng(0).permutation(len(data))
    held, rest = sorted(order[:count].tolist()), sorted(order[count:].tolist())
    return (
        replace(data, examples=[data[place] for place in rest], split="train"),
        replace(data, examples=[data[place] for place in held], split="held out of train"),
    )
