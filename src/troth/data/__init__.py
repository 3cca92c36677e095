"""Loads examples from a catalog entry, a file, a folder, the hub or memory; every guess is recorded in `notes`."""

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any

from troth.core import arguments, catalog
from troth.core.errors import NoSplitError, TrothError
from troth.core.types import Example
from troth.data._base import Data, Dataset, choose_split
from troth.data._classes import without_labels
from troth.data.sources.columns import Columns, to_data
from troth.data.sources.folders import tables_in
from troth.data.sources.readers import Table, is_data_file, read_file, read_hub, require_readable, table_of

__all__ = ["Data", "Dataset", "entry_of", "load_data"]

Source = str | os.PathLike[str] | Dataset | Iterable[Any] | Any  # `_from_memory` refuses objects that hold no examples
# Objects with columns or with one dimension are recognized by their attributes, without importing pandas or pyarrow.
Texts = (
    str | tuple[str, str] | Example | Iterable[Any] | Any
)  # also tables of other libraries; `read_texts` refuses anything else
_WANTED = {
    "texts": "a text, an Example, a pair of texts, a list of them, a DataFrame or a dict of lists",
    "data": "a name, a path, a list of texts or Examples, a DataFrame or a dict of lists",
}
_REFUSED = (bytes, bytearray, memoryview, set, frozenset)  # iterable, but not an ordered collection of texts


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
            raise TrothError(
                f"{entry.name} has fixed columns and classes; leave --text, --label and similar options out"
            )
        data = without_labels(entry.load(split)) if label == "" else entry.load(split)
        return _limited(data, limit, seed=0 if entry.sorted_by_label else None)
    if isinstance(source, str | os.PathLike):
        data = to_data(_read(source, split), columns, labels, unlabelled)
    else:
        data = _from_memory(source, columns, labels, unlabelled, split)
    return _limited(data, limit, seed=None)


def _class_names(labels: Any) -> tuple[str, ...]:
    several = isinstance(labels, Sequence | Mapping) and not isinstance(labels, str | bytes)
    if several and all(isinstance(name, str) and name.encode(errors="replace").decode() == name for name in labels):
        return tuple(labels)
    raise TrothError(f'labels must be a list of texts such as ["neg", "pos"], not {ascii(labels)[:60]}')


def entry_of(source: object) -> Dataset | None:
    """The catalog entry that a source names, or None."""
    if isinstance(source, Dataset):
        return source
    if not isinstance(source, str) or _word(source) not in catalog.names("data"):
        return None
    entry: Dataset = catalog.build("data", source)
    return entry


def _entry_or_refused(source: object) -> Dataset | None:
    """As `entry_of`, but refuses a bare word that is neither an entry nor a path."""
    if isinstance(source, str) and _word(source).isidentifier() and not os.path.exists(source):
        catalog.find("data", _word(source))
    return entry_of(source)


def _word(source: str) -> str:
    return source.partition("(")[0].strip()


def find_data(source: str) -> None:
    """Raises an error if the data are missing or of a kind that cannot be read, without reading them."""
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
            raise NoSplitError(f"{path.name} is one file without splits, so it has no {split!r}; leave --split out")
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


def as_examples(texts: Texts) -> Iterator[Example]:
    """Converts examples, texts, pairs or rows to examples; a bare tuple of two texts is one pair, and a text's id is
    its position.
    """
    return iter(read_texts(texts))


def read_texts(texts: Texts) -> Data | Iterator[Example]:
    """As `as_examples`, but rows, which may have labels, are returned as data."""
    if isinstance(texts, Data):
        return texts
    table = _table(texts, None)
    return _examples("texts", texts) if table is None else to_data(table, Columns(), unlabelled=True)


def _from_memory(source: Any, columns: Columns, labels: tuple[str, ...], unlabelled: bool, split: str | None) -> Data:
    """The data that an object holds."""
    if isinstance(source, Data):
        return source
    if not isinstance(source, Sequence | Mapping) and isinstance(source, Iterator):
        source = list(source)
    table = _table(source, split)
    if table is not None:
        return to_data(table, columns, labels, unlabelled)
    examples = list(_examples("data", source))
    if columns.group:
        raise TrothError(f"a list of texts has no column {columns.group!r}; give rows, or Example(group=…)")
    twice = [name for name, count in Counter(example.id for example in examples).items() if count > 1]
    if twice:
        raise TrothError(f"two examples have the id {twice[0]!r}; ids must be unique")
    return Data("memory", examples, labels)


def _examples(name: str, texts: Any) -> Iterator[Example]:
    if isinstance(texts, str | Example) or (isinstance(texts, tuple) and _is_pair(texts)):
        texts = [texts]
    if isinstance(texts, _REFUSED) or getattr(texts, "ndim", 1) != 1:
        shown = f"{type(texts).__name__}" + (f" of {texts.ndim} dimensions" if hasattr(texts, "ndim") else "")
        raise TrothError(f"{name} must be {_WANTED[name]}, not {shown}")
    arguments.iterable(name, texts, _WANTED[name])
    return _each(_values(texts))


def _each(texts: Iterable[Any]) -> Iterator[Example]:
    for position, item in enumerate(texts):
        if isinstance(item, Example):
            yield item
        elif isinstance(item, str):
            yield Example(id=str(position), text=str(item))
        elif _is_pair(item):
            yield Example(id=str(position), text=str(item[0]), text_pair=str(item[1]))
        elif _plain(item) is None:
            raise TrothError(f"item {position} has no text ({item}); drop it")
        else:
            raise TrothError(
                f"item {position} is {type(item).__name__}; give an Example, a text or a pair (text, text_pair)"
            )


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple | list) and len(item) == 2 and all(isinstance(part, str) for part in item)


def _table(source: Any, split: str | None) -> Table | None:
    """The rows of an object with columns; None for other objects."""
    name = f"this {type(source).__name__}"
    if hasattr(source, "column_names") and hasattr(source, "cache_files"):  # an object of the `datasets` library
        if isinstance(source, Mapping):
            split = choose_split(name, source, split)
            source = source[split]
        return table_of(source, "this Dataset", split)
    if isinstance(source, Mapping):
        return _of_columns(name, {str(key): _column(value) for key, value in source.items()})
    if hasattr(source, "itertuples"):  # pandas
        names = [str(column) for column in source.columns]
        if twice := [column for column, count in Counter(names).items() if count > 1]:
            raise TrothError(f"{name} has two columns called {twice[0]!r}; rename one")
        return _of_rows(name, names, source.itertuples(index=False, name=None))
    if hasattr(source, "__arrow_c_stream__") and (hasattr(source, "column_names") or hasattr(source, "columns")):
        import pyarrow

        rows = pyarrow.table(source)  # also reads polars and duckdb
        return _of_rows(name, rows.column_names, zip(*(column.to_pylist() for column in rows.columns), strict=True))
    if isinstance(source, list | tuple) and source and all(isinstance(item, Mapping) for item in source):
        return Table.of("memory", [{str(key): _plain(value) for key, value in row.items()} for row in source])
    return None


def _of_columns(name: str, columns: Mapping[str, list[Any] | None]) -> Table:
    """The rows of a dict of lists."""
    single = [column for column, values in columns.items() if values is None]
    if single or not columns:
        found = f"has no list under {single[0]!r}" if single else "is empty"
        raise TrothError(f'{name} {found}; give a dict of lists, {{"text": […]}}, or a list of rows')
    lengths = {column: len(values) for column, values in columns.items() if values is not None}
    (first, length), *others = lengths.items()
    for column, other in others:
        if other != length:
            raise TrothError(
                f"{name} has {length} values under {first!r} and {other} under {column!r}; give the "
                "same number for each"
            )
    return _of_rows(name, list(columns), zip(*(values or () for values in columns.values()), strict=True))


def _of_rows(name: str, columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> Table:
    each = [dict(zip(columns, map(_plain, row), strict=True)) for row in rows]
    if not each:
        raise TrothError(f"{name} contains no rows")
    return Table(name, tuple(columns), each)


def _column(values: Any) -> list[Any] | None:
    """The values of a list, an array or a Series; None for other objects."""
    if isinstance(values, str | bytes | Mapping) or getattr(values, "ndim", 1) != 1:
        return None
    plain = _values(values)
    return list(plain) if isinstance(plain, Sequence) else None


def _values(holder: Any) -> Any:
    """The values of an array or a Series as a list; other objects unchanged."""
    for method in ("tolist", "to_pylist", "to_list"):  # numpy and pandas, pyarrow, polars
        if hasattr(holder, method):
            return getattr(holder, method)()
    return holder


def _plain(value: Any) -> Any:
    """Missing values of any library become None, and numpy's numbers become Python's."""
    if type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and math.isnan(value)):
        return None
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
