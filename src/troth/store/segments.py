"""The Parquet files of the store: one cell per file when new, many when compacted, with facts about the cells in the
footer.

A file contains a hash of its own bytes (computed with zeros in the hash's place), so that any damage is detected.
"""

import base64
import hashlib
import json
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from troth.core import plain_values, reading
from troth.store import records
from troth.store.cells import Cell
from troth.store.records import DamagedError

_FACTS = b"troth"
_SEAL = b"troth-seal:"  # followed by 32 digits, the hash
_OPEN = b"0" * 32
_ROWS = 16_384  # rows of a row group, the least that is decompressed to read one cell

Facts = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Segment:
    """One file, with the facts about its cells in the order of their rows."""

    path: Path
    facts: Sequence[Facts]

    @classmethod
    def open(cls, path: Path) -> Self:
        """Reads only the footer."""
        metadata = _file(path).metadata.metadata or {}
        if _FACTS not in metadata:
            raise DamagedError(path, "not a file of troth's")
        try:
            unzipped = zlib.decompressobj().decompress(base64.b64decode(metadata[_FACTS]), reading.SETTINGS)
            facts = reading.parse_json(unzipped)
        except (ValueError, zlib.error):
            raise DamagedError(path, "its footer cannot be read") from None
        if wrong := plain_values.fault(facts, Sequence[records.FinishedRecord]):
            raise DamagedError(path, str(wrong))
        # The kind becomes the name of a view.
        if not all(cell["kind"].isidentifier() and cell["rows"] >= 0 for cell in facts):
            raise DamagedError(path, "its footer names no cells")
        if not facts or sum(cell["rows"] for cell in facts) != _file(path).metadata.num_rows:
            raise DamagedError(path, "rows are missing")
        return cls(path, facts)

    @property
    def kind(self) -> str:
        return str(self.facts[0]["kind"])

    @property
    def columns(self) -> Any:
        """The schema without the facts in its metadata."""
        return _file(self.path).schema_arrow.remove_metadata()

    def table(self, position: int) -> pa.Table:
        start, end = self._starts[position], self._starts[position + 1]
        file = _file(self.path)
        groups = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
        bounds = [0, *accumulate(groups)]
        first = max(0, bisect_right(bounds, start) - 1)
        wanted = [group for group in range(first, len(groups)) if bounds[group] < end]
        rows = _groups(self.path, tuple(wanted), *_version(self.path)) if wanted else self.columns.empty_table()
        rows = rows.slice(start - bounds[first], end - start)
        return rows.drop_columns(["cell"])

    def all_rows(self) -> pa.Table:
        """The rows of all cells, with the name of each row's cell."""
        return _decoded(self.path)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(int(cell["rows"]) for cell in self.facts)]

    def verify(self, *, named: bool = True) -> None:
        """Reads every byte; raises an error if one differs from what was written, or if a name belongs to another
        cell.

        Names of an earlier format cannot be computed again; pass `named=False` for those.
        """
        data = self.path.read_bytes()
        if _SEAL not in data or _sealed(data) != data:
            raise DamagedError(self.path, "its bytes are not those that were written")
        names = [cell["name"] for cell in self.facts]
        file_name = names[0] if self.path.parent.name == "cells" else f"{self.kind}-{seal_of(data)}"
        if (self.path.parent.name == "cells" and len(names) > 1) or self.path.stem != file_name:
            raise DamagedError(self.path, "it holds another cell than its name says")
        if len(set(names)) < len(names) or (named and names != [_name(cell) for cell in self.facts]):
            raise DamagedError(self.path, "a cell in it is not what its name says")
        with _reading(self.path):
            rows = _file(self.path).read(columns=["cell"])
        owners = [pa.repeat(pa.scalar(cell["name"], pa.string()), cell["rows"]) for cell in self.facts]
        if rows.column_names != ["cell"] or not rows.column(0).equals(pa.chunked_array(owners, pa.string())):
            raise DamagedError(self.path, "its rows are not those of its cells")

    def sound(self) -> list[tuple[Facts, pa.Table]]:
        """The cells of a damaged file whose rows can be trusted: none, unless the damage is known to lie in other
        cells.
        """
        kept = []
        for position, facts in enumerate(self.facts):
            try:
                rows = self.table(position)
            except DamagedError:
                continue
            if _name(facts) == facts["name"]:
                kept.append((facts, rows))
        return kept if len(kept) < len(self.facts) else []


def pack(facts: Sequence[Facts], tables: Iterable[pa.Table]) -> bytes:
    """The bytes of a file with these cells in this order."""
    named = []
    for cell, table in zip(facts, tables, strict=True):
        names = pa.repeat(pa.scalar(cell["name"], pa.string()), table.num_rows)
        named.append(table.replace_schema_metadata(None).add_column(0, "cell", names))
    text = base64.b64encode(zlib.compress(json.dumps(list(facts), ensure_ascii=False).encode(), 6)).decode()
    rows = pa.concat_tables(named).combine_chunks()
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema, compression="zstd", write_page_checksum=True) as writer:
        writer.write_table(rows, row_group_size=_ROWS)
        writer.add_key_value_metadata({_FACTS.decode(): text, "seal": (_SEAL + _OPEN).decode()})
    return _sealed(bytes(sink.getvalue()))


def seal_of(data: bytes) -> str:
    """The hash that a file contains of itself."""
    return data.rpartition(_SEAL)[2][: len(_OPEN)].decode("ascii", "replace")


def _sealed(data: bytes) -> bytes:
    """Inserts the hash of the file's bytes, computed with zeros in its place."""
    before, mark, after = data.rpartition(_SEAL)
    zeroed = before + mark + _OPEN + after[len(_OPEN) :]
    return before + mark + hashlib.blake2b(zeroed, digest_size=16).hexdigest().encode() + after[len(_OPEN) :]


def _name(facts: Facts) -> str:
    return Cell(facts["kind"], facts["specs"], tuple(facts["parents"])).name


def _version(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def _file(path: Path) -> Any:
    return _opened(path, *_version(path))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DamagedError(path, str(error).strip().partition("\n")[0].rstrip(".")[:120]) from None


@lru_cache(maxsize=16)
def _opened(path: Path, *_version: int) -> Any:
    with _reading(path):
        # Arrow accepts only UTF-8 paths, so such a file is passed as an open file.
        source = path if str(path).isascii() else path.open("rb")
        return pq.ParquetFile(source, page_checksum_verification=True)


@lru_cache(maxsize=2)
def _groups(path: Path, groups: tuple[int, ...], *_version: int) -> pa.Table:
    # Cells are often read one after the other.
    return _decoded(path, groups)


def _decoded(path: Path, groups: tuple[int, ...] | None = None) -> pa.Table:
    with _reading(path):
        rows = _file(path).read() if groups is None else _file(path).read_row_groups(list(groups))
    if "cell" not in rows.column_names:
        raise DamagedError(path, "it lacks the column of cells")
    return rows
