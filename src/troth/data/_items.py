"""What a user has in memory, as examples: texts, pairs, rows, or an object with columns."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from troth.core import arguments
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.data._base import Data, choose_split
from troth.data.sources.columns import Columns, to_data
from troth.data.sources.readers import Table, table_of

# Objects with columns or of one dimension are known by their shape: pandas, pyarrow and the like are not imported.
Texts = (
    str | tuple[str, str] | Example | Iterable[Any] | Any
)  # tables of other libraries, too; `read_texts` refuses the rest
_WANTED = {
    "texts": "a text, an Example, a pair of texts, a list of them, a DataFrame or a dict of lists",
    "data": "a name, a path, a list of texts or Examples, a DataFrame or a dict of lists",
}
_REFUSED = (bytes, bytearray, memoryview, set, frozenset)  # iterable, but not of texts in an order


def as_examples(texts: Texts) -> Iterator[Example]:
    """Examples of examples, texts, pairs or rows; a bare tuple of two texts is one pair, a text's id its position."""
    return iter(read_texts(texts))


def read_texts(texts: Texts) -> Data | Iterator[Example]:
    """As `as_examples`; rows, which may have labels, as the data that they are."""
    if isinstance(texts, Data):
        return texts
    table = _table(texts, None)
    return _examples("texts", texts) if table is None else to_data(table, Columns(), unlabelled=True)


def from_memory(
    source: Any, columns: Columns, labels: tuple[str, ...] = (), unlabelled: bool = False, split: str | None = None
) -> Data:
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
        raise TrothError(f"two examples have the id {twice[0]!r}; give each its own")
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
    """The rows of what has columns; None of what has none."""
    name = f"this {type(source).__name__}"
    if hasattr(source, "column_names") and hasattr(source, "cache_files"):  # of the `datasets` library
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

        rows = pyarrow.table(source)  # also of polars and duckdb
        return _of_rows(name, rows.column_names, zip(*(column.to_pylist() for column in rows.columns), strict=True))
    if isinstance(source, list | tuple) and source and all(isinstance(item, Mapping) for item in source):
        return Table.of("memory", [{str(key): _plain(value) for key, value in row.items()} for row in source])
    return None


def _of_columns(name: str, columns: Mapping[str, list[Any] | None]) -> Table:
    """A dict of lists."""
    single = [column for column, values in columns.items() if values is None]
    if single or not columns:
        found = f"has no list under {single[0]!r}" if single else "is empty"
        raise TrothError(f'{name} {found}; give a dict of lists, {{"text": […]}}, or a list of rows')
    lengths = {column: len(values) for column, values in columns.items() if values is not None}
    (first, length), *others = lengths.items()
    for column, other in others:
        if other != length:
            raise TrothError(f"{name} has {length} values under {first!r} and {other} under {column!r}; give as many")
    return _of_rows(name, list(columns), zip(*(values or () for values in columns.values()), strict=True))


def _of_rows(name: str, columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> Table:
    each = [dict(zip(columns, map(_plain, row), strict=True)) for row in rows]
    if not each:
        raise TrothError(f"{name} holds no rows")
    return Table(name, tuple(columns), each)


def _column(values: Any) -> list[Any] | None:
    """The values of a list, an array or a Series; None of anything else."""
    if isinstance(values, str | bytes | Mapping) or getattr(values, "ndim", 1) != 1:
        return None
    plain = _values(values)
    return list(plain) if isinstance(plain, Sequence) else None


def _values(holder: Any) -> Any:
    """Those of an array or a Series as a list; anything else as it is."""
    for method in ("tolist", "to_pylist", "to_list"):  # numpy and pandas, pyarrow, polars
        if hasattr(holder, method):
            return getattr(holder, method)()
    return holder


def _plain(value: Any) -> Any:
    """A missing value as None, whatever library's it is, and numpy's numbers as Python's."""
    if type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and math.isnan(value)):
        return None
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
