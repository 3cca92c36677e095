"""The splits a paper made of a data set, where they are not the official ones: `ag_news(as_in=saloss)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar

from troth.data._base import Data, hold_out
from troth.data.sources.published import Published


@dataclass(frozen=True)
class PaperSplits(Published):
    """An entry with an option `as_in`: a paper's name, or None for the official splits."""

    # What the papers report, and the share of train that they validate on where no file says which rows those are.
    paper_rows: ClassVar[Mapping[str, int | None]] = MappingProxyType({})
    paper_held_out: ClassVar[float | None] = None

    as_in: str | None = None

    @property
    def split_names(self) -> tuple[str, ...]:
        return super().split_names if self.as_in is None else tuple(self.paper_rows)

    def load(self, split: str | None = None) -> Data:
        return super().load(split) if self.as_in is None else super(Published, self).load(split)

    def read(self, split: str) -> Data:
        if self.as_in is None:
            return super().read(split)
        data = self.paper_split(split)
        wanted, notes = self.paper_rows[split], tuple(note for note in data.notes if "the official one" not in note)
        if wanted is not None and len(data) != wanted:
            notes += (f"{split} here has {len(data):,} rows, the paper's {wanted:,}",)
        return replace(data, name=self.name, split=split, notes=notes)

    def paper_split(self, split: str) -> Data:
        """A split as the paper has it; unless an entry knows better, train less the share that is held out."""
        if self.paper_held_out is None or split == "test":
            return super().read(split)
        training, validation = hold_out(super().read("train"), self.paper_held_out)
        return training if split == "train" else validation
