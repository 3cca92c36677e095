"""Rows out of one file: jsonl, json, csv, tsv (each may be gzipped) and parquet; one clear line where it is broken."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from troth.core.errors import TrothError

Row = Mapping[str, Any]

_FORMATS = ("jsonl", "json", "csv", "tsv", "parquet")


@dataclass(frozen=True)
class Table:
    """Rows as a source has them; `class_names` are those a column brings along."""

    source: str  # how an error names it
    columns: tuple[str, ...]
    rows: Sequence[Row]
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    split: str = ""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: str, rows: Sequence[Row]) -> Table:
        """A table whose columns are all the keys its rows have."""
        return cls(source, tuple(dict.fromkeys(key for row in rows for key in row)), rows)


def is_data_file(path: Path) -> bool:
    """Whether the name ends as one of the formats read here."""
    return file_format(path) in _FORMATS


def file_format(path: Path) -> str:
    """The ending that says what is in a file: 'jsonl' of train.jsonl.gz."""
    return path.name.removesuffix(".gz").rpartition(".")[2].lower()


def require_readable(path: Path) -> None:
    """One line for a file of a kind that is not read here."""
    if not is_data_file(path):
        raise TrothError(f"{path}: cannot read this kind of file; give one of {', '.join(_FORMATS)}")


def read_file(path: Path) -> Table:
    """All rows of a file."""
    require_readable(path)
    kind = file_format(path)
    table = _parquet(path) if kind == "parquet" else _parse(path.name, kind, _text(path))
    if not table.rows:
        raise TrothError(f"{path.name} holds no rows")
    return table


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file."""
    return _lines(path.name, _text(path))


def _parse(source: str, kind: str, text: str) -> Table:
    if kind == "jsonl":
        return Table.of(source, _lines(source, text))
    if kind == "json":
        return Table.of(source, _json(source, text))
    return _delimited(source, kind, text)


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        if path.name.endswith(".gz"):
            raw = gzip.decompress(raw)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise TrothError(f"{path.name} is not a whole gzip file") from None
    except OSError as problem:
        raise TrothError(f"{path}: {problem.strerror}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        raise TrothError(f"{path.name}: line {line} is not UTF-8; save the file as UTF-8") from None


def _lines(source: str, text: str) -> list[dict[str, Any]]:
    found = []
    # Only \n ends a line: str.splitlines would also break at U+2028 inside a text.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except json.JSONDecodeError as problem:
                raise TrothError(f"{source}: line {number} is not JSON ({problem.msg})") from None
            except (RecursionError, ValueError) as problem:
                raise TrothError(f"{source}: line {number} {_excess(problem)}") from None
            if not isinstance(row, dict):
                raise TrothError(f"{source}: line {number} is not a JSON object but {type(row).__name__}")
            found.append(row)
    return found


def _json(source: str, text: str) -> list[dict[str, Any]]:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as problem:
        if problem.msg == "Extra data":  # JSON lines under the name .json, as `datasets` writes them
            return _lines(source, text)
        raise TrothError(f"{source}: line {problem.lineno} is not JSON ({problem.msg})") from None
    except (RecursionError, ValueError) as problem:
        raise TrothError(f"{source} {_excess(problem)}") from None
    if isinstance(content, dict):
        lists = [value for value in content.values() if isinstance(value, list)]
        content = lists[0] if len(lists) == 1 else content
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise TrothError(f"{source}: expected a list of objects, one per row")
    return content


def _excess(problem: Exception) -> str:
    """What JSON allows and Python does not."""
    if isinstance(problem, RecursionError):
        return "is nested too deeply; a row is an object of texts, numbers and short lists"
    return "holds a whole number of more digits than can be read; write it as text"


def _delimited(source: str, kind: str, text: str) -> Table:
    """A tsv is read as it stands, quotes included, as its format says; a csv may be cut by , or ; or tab."""
    header_line = text.partition("\n")[0]
    delimiter = "\t" if kind == "tsv" else max(",;\t", key=header_line.count)
    csv.field_size_limit(2**31 - 1)  # the default refuses texts over 128 KiB
    lines = io.StringIO(text, newline="")
    if kind == "tsv":
        records = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    else:
        records = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        header = next(records, [])
        rows = list(_records(source, header, records))
    except csv.Error as problem:
        raise TrothError(f"{source}: line {records.line_num}: {problem}") from None
    unusual = {";": "semicolons", "\t": "tabs"}.get(delimiter) if kind == "csv" else None
    return Table(source, tuple(header), rows, notes=(f"columns: cut by {unusual}",) if unusual else ())


def _records(source: str, header: list[str], records: Iterator[list[str]]) -> Iterator[dict[str, str]]:
    number = 0
    for record in records:
        if not record:
            continue
        number += 1
        if len(record) != len(header):
            hint = "; quote texts that hold the delimiter" if len(record) > len(header) else ""
            raise TrothError(f"{source}: row {number} has {len(record)} fields, the header {len(header)}{hint}")
        yield dict(zip(header, record, strict=True))


def _parquet(path: Path) -> Table:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.ParquetFile(path).read()
        rows = table.to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError, RecursionError) as problem:
        # Values that Python cannot hold, too: bytes that are not UTF-8, dates beyond its calendar.
        reason = str(problem).partition("\n")[0][:100]
        raise TrothError(f"{path.name} cannot be read as parquet ({reason})") from None
    known, note = _class_names(table.schema.metadata)
    return Table(path.name, tuple(table.column_names), rows, known, notes=(note,) if note else ())


def _class_names(metadata: Mapping[bytes, bytes] | None) -> tuple[dict[str, tuple[str, ...]], str]:
    """The class names that `datasets` writes next to the schema, and what to say where others wrote something else."""
    try:
        features = json.loads((metadata or {}).get(b"huggingface", b"{}")).get("info", {}).get("features", {})
        found = {name: feature["names"] for name, feature in features.items() if "names" in feature}
        for names in found.values():
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise TypeError("class names are a list of texts")
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return {}, "class names: none; the file's metadata is not as `datasets` writes it"
    return {name: tuple(names) for name, names in found.items()}, ""
