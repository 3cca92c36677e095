"""Examples from a catalog entry, a file, a folder, the hub or memory; every guess on the way is in `notes`."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any

from troth.core import arguments, catalog
from troth.core.errors import NoSplitError, TrothError
from troth.data._base import Data, Dataset, choose_split
from troth.data._classes import without_labels
from troth.data._items import from_memory
from troth.data.sources.columns import Columns, to_data
from troth.data.sources.folders import tables_in
from troth.data.sources.readers import Table, is_data_file, read_file, read_hub, require_readable

__all__ = ["Data", "Dataset", "entry_of", "load_data"]

Source = str | os.PathLike[str] | Dataset | Iterable[Any] | Any  # `from_memory` refuses what holds no examples


def load_data(
    source: Source,
    split: str | None = None,
    limit: int | None = None,
    *,
    text: str | None = None,
    text_pair: str | None = None,
    label: str | None = None,
    rationale: str | None = None,
    id: str | None = None,
    group: str | None = None,
    labels: Sequence[str] = (),
    unlabelled: bool = False,
) -> Data:
    """Examples from a name ("imdb", "babi(task=2)"), a file, a folder, the hub ("owner/name:config") or from memory.

    In memory: a list of texts, pairs, Examples or rows, a DataFrame, a Series, a dict of lists, an Arrow table.

    A bare word is a catalog name; write ./word for a folder. Without `split`: validation, else test, else the only one.
    `limit` takes the first rows; of an entry whose files are sorted by class, the first after a shuffle with seed 0.
    `text`, `text_pair`, `label`, `rationale`, `id` name columns (None: guess, "": none), `labels` the classes in order.
    `group` names the column of what examples come from, such as a document: in a bench, a group counts once.
    """
    arguments.of_kind("split", split, (str, NoneType), "the name of a split")
    labels = _class_names(labels)
    columns = Columns(text=text, text_pair=text_pair, label=label, rationale=rationale, id=id, group=group)
    for name, value in vars(columns).items():
        arguments.of_kind(name, value, (str, NoneType), "the name of a column")
    if isinstance(source, str) and not source.strip():
        raise TrothError("data must be a name, a path or examples, not an empty text")
    entry = _entry_or_refused(source)
    if entry is not None:
        if columns not in (Columns(), Columns(label="")) or labels:
            raise TrothError(f"{entry.name} knows its columns and classes; leave --text, --label and the like out")
        data = without_labels(entry.load(split)) if label == "" else entry.load(split)
        return _limited(data, limit, seed=0 if entry.sorted_by_label else None)
    if isinstance(source, str | os.PathLike):
        data = to_data(_read(source, split), columns, labels, unlabelled)
    else:
        data = from_memory(source, columns, labels, unlabelled, split)
    return _limited(data, limit, seed=None)


def _class_names(labels: Any) -> tuple[str, ...]:
    several = isinstance(labels, Sequence | Mapping) and not isinstance(labels, str | bytes)
    if several and all(isinstance(name, str) and name.encode(errors="replace").decode() == name for name in labels):
        return tuple(labels)
    raise TrothError(f'labels must be a list of texts such as ["neg", "pos"], not {ascii(labels)[:60]}')


def entry_of(source: object) -> Dataset | None:
    """The catalog entry a source stands for, if it does."""
    if isinstance(source, Dataset):
        return source
    if not isinstance(source, str) or _word(source) not in catalog.names("data"):
        return None
    entry: Dataset = catalog.build("data", source)
    return entry


def _entry_or_refused(source: object) -> Dataset | None:
    """As `entry_of`; a bare word that is neither an entry nor a path is refused as an unknown name."""
    if isinstance(source, str) and _word(source).isidentifier() and not os.path.exists(source):
        catalog.find("data", _word(source))
    return entry_of(source)


def _word(source: str) -> str:
    return source.partition("(")[0].strip()


def find_data(source: str) -> None:
    """One line for data that are not there, or of a kind that cannot be read; nothing is read."""
    path = Path(source)
    if _entry_or_refused(source) is not None:
        return
    if os.path.isdir(path):  # False for a name that is too long
        tables_in(path)
    elif os.path.exists(path):
        require_readable(path)
    elif not _is_hub_name(source):
        raise TrothError(f"{source}: no such file or folder")


def _is_hub_name(source: str | os.PathLike[str]) -> bool:
    name = re.fullmatch(r"[\w.-]+/[\w.-]+(:[\w.-]+)?", source) if isinstance(source, str) else None
    return name is not None and not is_data_file(Path(source))


def _read(source: str | os.PathLike[str], split: str | None) -> Table:
    path = Path(source)
    if os.path.isdir(path):  # False for a name that is too long
        tables = tables_in(path)
        return tables[choose_split(str(source), tables, split)]()
    if os.path.exists(path):
        table = read_file(path)
        if split is not None and split != path.name.partition(".")[0]:
            raise NoSplitError(f"{path.name} is one file without splits, so has no {split!r}; leave --split out")
        return table
    if _is_hub_name(source):
        return read_hub(str(source), split)
    raise TrothError(f"{source}: no such file or folder")


def _limited(data: Data, limit: int | None, seed: int | None) -> Data:
    if limit is None:
        return data
    chosen = data.limit(limit, seed)
    if len(chosen) == len(data):
        return chosen
    how = "the first" if seed is None else f"drawn with seed {seed}:"
    notes = [*data.notes, f"{how} {len(chosen):,} of {len(data):,} examples"]
    if len({example.label for example in chosen}) == 1 < len({example.label for example in data}):
        notes.append(f"the first {len(chosen):,} examples are all of one class: the file seems sorted")
    return replace(chosen, notes=tuple(notes))
