"""Reads rows from one file: jsonl, json, csv, tsv (each optionally gzipped) or parquet, with a one-line error for a
damaged file.

Also reads rows from the Hugging Face hub and from objects of the `datasets` library.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from troth.core import reading
from troth.core.errors import TrothError
from troth.core.extras import importing
from troth.core.hub import offline_where_unreachable, unreachable
from troth.data._base import choose_split

Row = Mapping[str, Any]

_FORMATS = ("jsonl", "json", "csv", "tsv", "parquet")
_DOCUMENT = reading.DATA // 4  # size limit of a JSON file that is parsed as a whole
_BATCH = 256  # rows of a parquet file at a time
_RATIO, _ALWAYS = 1_000, 64 << 20  # limits of decompression; repeated texts are stored once
# The hub keeps a parquet copy of repositories that still contain a loading script.
_PARQUET_COPY = "refs/convert/parquet"


@dataclass(frozen=True)
class Table:
    """The rows of a source; `class_names` come with a column."""

    source: str  # its name in errors
    columns: tuple[str, ...]
    rows: Sequence[Row]
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    split: str = ""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: str, rows: Sequence[Row]) -> Table:
        """A table with all keys of its rows as columns."""
        return cls(source, tuple(dict.fromkeys(key for row in rows for key in row)), rows)


def is_data_file(path: Path) -> bool:
    """Whether the name has the ending of a supported format."""
    return file_format(path) in _FORMATS


def file_format(path: Path) -> str:
    """The ending that determines the format: 'jsonl' for train.jsonl.gz."""
    return path.name.removesuffix(".gz").rpartition(".")[2].lower()


def require_readable(path: Path) -> None:
    """Raises an error for a file of a kind that is not supported."""
    if not is_data_file(path):
        raise TrothError(f"{path}: cannot read this kind of file; give one of {', '.join(_FORMATS)}")


def read_file(path: Path) -> Table:
    """All rows of a file."""
    require_readable(path)
    kind = file_format(path)
    try:
        if kind == "parquet":
            table = _parquet(path)
        elif kind in ("csv", "tsv"):
            table = _delimited(path, kind)
        else:
            table = Table.of(path.name, _json(path) if kind == "json" else read_lines(path))
    except OSError as problem:
        raise TrothError(f"{path}: {problem.strerror}") from None
    if not table.rows:
        raise TrothError(f"{path.name} contains no rows")
    return table


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file."""
    return _objects(path.name, reading.lines(path))


def _objects(source: str, lines: Iterable[str]) -> list[dict[str, Any]]:
    found = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                row = reading.parse_json(line)
            except json.JSONDecodeError as problem:
                raise TrothError(f"{source}: line {number} is not JSON ({problem.msg})") from None
            except reading.ExcessError as problem:
                raise TrothError(f"{source}: line {number} {problem}") from None
            if not isinstance(row, dict):
                raise TrothError(f"{source}: line {number} is not a JSON object but {type(row).__name__}")
            found.append(row)
    return found


def _json(path: Path) -> list[dict[str, Any]]:
    text = "".join(reading.lines(path, _DOCUMENT))
    try:
        content = reading.parse_json(text)
    except json.JSONDecodeError as problem:
        if problem.msg == "Extra data":  # JSON lines in a file called .json, as `datasets` writes them
            return _objects(path.name, text.split("\n"))
        raise TrothError(f"{path.name}: line {problem.lineno} is not JSON ({problem.msg})") from None
    except reading.ExcessError as problem:
        raise TrothError(f"{path.name} {problem}") from None
    if isinstance(content, dict):
        lists = [value for value in content.values() if isinstance(value, list)]
        content = lists[0] if len(lists) == 1 else content
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise TrothError(f"{path.name}: expected a list of objects, one per row")
    return content


def _delimited(path: Path, kind: str) -> Table:
    """A tsv is read literally, including quotes, as its format prescribes; a csv may be separated by , or ; or tab."""
    lines = reading.lines(path)
    first = next(lines, "")
    delimiter = "\t" if kind == "tsv" else max(",;\t", key=first.count)
    csv.field_size_limit(min(reading.allowed(reading.LINE), 2**31 - 1))  # the default refuses texts over 128 KiB
    # A line may also end in \r alone, as on old Macs.
    pieces = (piece for line in chain([first], lines) for piece in io.StringIO(line, newline=""))
    if kind == "tsv":
        records = csv.reader(pieces, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    else:
        records = csv.reader(pieces, delimiter=delimiter, strict=True)
    try:
        header = next(records, [])
        rows = list(_records(path.name, header, records))
    except csv.Error as problem:
        raise TrothError(f"{path.name}: line {records.line_num}: {problem}") from None
    unusual = {";": "semicolons", "\t": "tabs"}.get(delimiter) if kind == "csv" else None
    return Table(path.name, tuple(header), rows, notes=(f"columns: cut by {unusual}",) if unusual else ())


def _records(source: str, header: list[str], records: Iterator[list[str]]) -> Iterator[dict[str, str]]:
    number = 0
    for record in records:
        if not record:
            continue
        number += 1
        if len(record) != len(header):
            hint = "; quote texts that hold the delimiter" if len(record) > len(header) else ""
            raise TrothError(f"{source}: row {number} has {len(record)} fields, but the header has {len(header)}{hint}")
        yield dict(zip(header, record, strict=True))


def _parquet(path: Path) -> Table:
    import pyarrow
    import pyarrow.parquet

    reading.require_file(path, reading.DATA)
    try:
        file = pyarrow.parquet.ParquetFile(path)
        reading.require_size(path, declared_size(file.metadata), reading.DATA, "expands to")
        expanded = 0
        for batch in file.iter_batches(_BATCH):  # a long repeated text is stored once
            expanded += batch.nbytes
            reading.require_size(path, expanded, reading.DATA, "expands to over")
            if expanded > max(_ALWAYS, _RATIO * path.stat().st_size):
                raise TrothError(
                    f"{path.name} expands to more than {_RATIO:,} times its size, which real data never "
                    "does; if you trust it, "
                    "write it again with use_dictionary=False"
                )
        rows = [row for batch in file.iter_batches(_BATCH) for row in batch.to_pylist()]
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError, RecursionError) as problem:
        # Also catches values that Python cannot hold: bytes that are not UTF-8, dates outside its calendar.
        reason = str(problem).partition("\n")[0][:100]
        raise TrothError(f"{path.name} cannot be read as parquet ({reason})") from None
    known, note = _class_names(file.schema_arrow.metadata)
    return Table(path.name, tuple(file.schema_arrow.names), rows, known, notes=(note,) if note else ())


def declared_size(metadata: Any) -> int:
    """The size to which a parquet file says it expands: at least eight bytes per value, however it is stored."""
    columns = [
        metadata.row_group(group).column(place)
        for group in range(metadata.num_row_groups)
        for place in range(metadata.num_columns)
    ]
    declared = sum(max(column.total_uncompressed_size, 8 * column.num_values) for column in columns)
    return max(int(declared), 8 * int(metadata.num_rows))


def _class_names(metadata: Mapping[bytes, bytes] | None) -> tuple[dict[str, tuple[str, ...]], str]:
    """The class names that `datasets` writes next to the schema, and a note if others were written there."""
    try:
        features = reading.parse_json((metadata or {}).get(b"huggingface", b"{}")).get("info", {}).get("features", {})
        found = {name: feature["names"] for name, feature in features.items() if "names" in feature}
        for names in found.values():
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise TypeError("class names must be a list of strings")
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}, "class names: none; the file's metadata is not as `datasets` writes it"
    return {name: tuple(names) for name, names in found.items()}, ""


def read_hub(name: str, split: str | None) -> Table:
    """One split of owner/name or owner/name:config."""
    try:
        try:
            return _load(name, split, revision=None)
        except RuntimeError as problem:
            if "scripts are no longer supported" not in str(problem):
                raise
            return _load(name, split, revision=_PARQUET_COPY)
    except TrothError:
        raise
    except Exception as problem:  # network, permission, name and configuration errors of three libraries
        reason = unreachable() or f"{type(problem).__name__}: {' '.join(str(problem).split())[:160]}"
        raise TrothError(
            f"{name} cannot be loaded from the hub ({reason}); "
            "check the name and the network, or give a file or folder that exists"
        ) from problem


def table_of(dataset: Any, source: str, split: str | None) -> Table:
    """The rows of a `datasets.Dataset`, with the class names in its features."""
    named = {column: getattr(feature, "names", None) for column, feature in dataset.features.items()}
    class_names = {column: tuple(names) for column, names in named.items() if names}
    return Table(source, tuple(dataset.column_names), dataset.to_list(), class_names, split or "")


def _load(name: str, split: str | None, revision: str | None) -> Table:
    with importing("hub", f"{name}, a data set of the hub,"):
        import datasets

    repository, _, config = name.partition(":")
    with offline_where_unreachable(repository, datasets.config):
        names = datasets.get_dataset_split_names(repository, config or None, revision=revision)
        chosen = choose_split(name, names, split)
        return table_of(
            datasets.load_dataset(repository, config or None, split=chosen, revision=revision), name, chosen
        )
