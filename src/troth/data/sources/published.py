"""The data sets of the papers in their official splits, from the folder $TROTH_DATA/<name> or else from the hub.

Where a paper made its own splits, an option selects them: `ag_news(as_in=saloss)`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from troth.core import catalog
from troth.core.errors import NoSplitError, TrothError
from troth.data._base import Data, Dataset, choose_split, hold_out
from troth.data._base import rows as rows  # for the entries
from troth.data.sources.columns import Columns, to_data
from troth.data.sources.folders import Tables, tables_in
from troth.data.sources.readers import Table, read_hub


@dataclass(frozen=True)
class Published(Dataset):
    """A data set that others publish. `text_column` and `auxiliary` name the hub's columns; files may also use text,
    text_pair.
    """

    hub: ClassVar[str] = ""  # owner/name or owner/name:config; empty if the hub has no form that can be read
    hub_splits: ClassVar[Mapping[str, str]] = MappingProxyType({})  # the hub's names of splits, where they differ
    label: ClassVar[str] = "label"  # the hub's column with the class
    obtain: ClassVar[str] = ""  # how to obtain it if the hub does not have it
    without_label: ClassVar[str] = ""  # why some rows are labeled -1; those are left out

    @property
    def split_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.splits, *self.local_tables()]))

    def load(self, split: str | None = None) -> Data:
        # By default, evaluation uses a split that is on disk rather than downloading another one.
        names = self.split_names if split is not None else tuple(self.local_tables()) or self.split_names
        return self.read(choose_split(self.name, names, split))

    def read(self, split: str) -> Data:
        return self._data(split, self._table(split))

    def read_where(self, split: str, column: str, value: str) -> Data:
        """The rows of a split that have the given value in a column."""
        table = self._table(split)
        chosen = [row for row in table.rows if row.get(column) == value]
        if not chosen:
            raise TrothError(f"{self.name}: no row of {table.source} has the {column} {value}")
        return self._data(split, replace(table, rows=chosen))

    def _data(self, split: str, raw: Table) -> Data:
        table = self.adapt(raw)
        columns = self._columns(table)
        kept = [row for row in table.rows if not (self.without_label and row.get(columns.label or "") == -1)]
        data = to_data(replace(table, rows=kept), columns, self.labels)
        notes, official = [], self.splits.get(split)
        if len(kept) < len(table.rows):
            notes.append(f"left out {len(table.rows) - len(kept):,} rows {self.without_label}")
        if split not in self.splits:
            notes.append(f"{split} is not an official split")
        if official not in (None, len(data)):
            notes.append(f"{split} here has {len(data):,} rows, the official one {official:,}")
        return replace(data, name=self.name, notes=tuple(notes), split=split)

    def local_tables(self) -> Tables:
        """The splits in $TROTH_DATA/<name>."""
        folder = local_folder(catalog.name_of(self))
        return tables_in(folder) if folder is not None else {}

    def adapt(self, table: Table) -> Table:
        """Builds the columns `text_column`, `auxiliary` and `label` if a source spreads them over more columns."""
        return table

    def _table(self, split: str) -> Table:
        name, local = catalog.name_of(self), self.local_tables()
        if split in local:
            return local[split]()
        missing = f"$TROTH_DATA/{name} has no {split} split" if local else f"there is no folder {name} in $TROTH_DATA"
        if "TROTH_DATA" not in os.environ:
            missing = "TROTH_DATA names no folder"
        kind = NoSplitError if local else TrothError
        if not self.hub:
            raise kind(f"{name}: {missing}; {self.obtain}")
        try:
            return read_hub(self.hub, self.hub_splits.get(split, split))
        except NoSplitError as problem:
            raise NoSplitError(f"{name}: {missing}; {problem}") from None
        except TrothError as problem:
            raise kind(f"{name}: {missing}; {problem}") from None

    def _columns(self, table: Table) -> Columns:
        def one_of(*names: str) -> str:
            return next((name for name in names if name in table.columns), names[-1])

        return Columns(
            text=one_of(self.text_column, "text"),
            text_pair=one_of(self.auxiliary, "text_pair") if self.auxiliary else "",
            label=one_of(self.label, "label"),
            rationale=one_of("rationale", "rationales", ""),
        )


def local_folder(name: str) -> Path | None:
    """$TROTH_DATA/<name>, if it exists."""
    folder = Path(os.environ.get("TROTH_DATA", "")) / name
    return folder if "TROTH_DATA" in os.environ and folder.is_dir() else None


@dataclass(frozen=True)
class PaperSplits(Published):
    """An entry with the option `as_in`: the name of a paper, or None for the official splits."""

    # The sizes that the papers report, and the share of train used for validation if no file says which rows those are.
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
        """A split as in the paper; by default, train without the share that is held out."""
        if self.paper_held_out is None or split == "test":
            return super().read(split)
        training, validation = hold_out(super().read("train"), self.paper_held_out)
        return training if split == "train" else validation
