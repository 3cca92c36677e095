"""Read-only SQL over a run: a view of all cells, and for each kind a view of its rows with the specs of their cells.

`scores` has one row per example and seed; what is computed from rows, like the leaderboard, is passed in as a view.
"""

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from troth.core.errors import TrothError
from troth.store.segments import Segment
from troth.store.specs import CheckSpec, DataSpec, ExplanationSpec, MetricSpec
from troth.store.sql_process import QueryLimits, Sources, select
from troth.store.store import Store, Stored

# Views that are named after their rows and not after the kind of their cells.
VIEWS = {
    ExplanationSpec.kind: ("explanations", ExplanationSpec.columns),
    MetricSpec.kind: ("scores", MetricSpec.columns),
    DataSpec.kind: ("examples", DataSpec.columns),
    CheckSpec.kind: ("checks", CheckSpec.columns),
}
_ENDS = {"D": 2**31 - 1}  # DuckDB's infinite date, in days; infinite times are the largest 64-bit number
_CELL = ("name", "kind", "parents", "rows", "seconds", "forward", "backward", "finished", "host", "error")


@dataclass(frozen=True)
class View:
    """A table that is computed only for SQL that names it; other SQL sees only its columns."""

    columns: pa.Schema
    rows: Callable[[], pa.Table]


def query(
    store: Store, sql: str, views: Mapping[str, View] | None = None, *, rows: int = 0, limits: QueryLimits | None = None
) -> pa.Table:
    """The answer to one SELECT over `cells`, `explanations`, `scores`, `examples` and the views of other kinds.

    Returns the first `rows` rows; 0 returns all. Columns of the same name are numbered: value, value_2.
    """
    if not sql.isascii() and sql.encode(errors="replace").decode() != sql:
        raise TrothError("the SQL is not valid Unicode (a lone surrogate); write it as UTF-8")
    sources = _sources(store)
    for name, view in (views or {}).items():
        sources.tables[name] = view.rows() if name in sql.lower() else view.columns.empty_table()
    return select(sources, sql, limits or QueryLimits(), rows)


def _sources(store: Store) -> Sources:
    store.refresh()
    segments = store.segments()
    table = cells_table(store.cells())
    tables, statements = {"stored_cells": table}, ["create view cells as select * from stored_cells"]
    for kind in sorted({segment.kind for segment in segments} | VIEWS.keys()):
        of_kind = [segment for segment in segments if segment.kind == kind]
        name, columns = VIEWS.get(kind, (kind, None))
        if of_kind:
            own = {column for segment in of_kind for column in segment.columns.names}
            rows = _rows(store, of_kind)
        else:
            # A query over a run without explanations returns no rows instead of an error.
            empty = pa.schema([("cell", pa.string()), *columns]).empty_table()
            tables[f"no_{name}"] = empty
            own, rows = set(empty.column_names), f'select *, null as filename from "no_{name}"'
        statements.append(_view(name, own, rows, table.column_names))
    return Sources(str(store.folder.absolute()), tables, statements)


def _view(name: str, own: Set[str], rows: str, specs: Sequence[str]) -> str:
    of_cell = [
        f'cells."{column}" as "spec_{column}"' if column in own else f'cells."{column}"'
        for column in specs
        if column not in (*_CELL, "specs")
    ]
    shown = ", ".join([*of_cell, "stored.* exclude (filename)"])
    joined = f"({rows}) stored join cells on cells.name = stored.cell"
    return f'create view "{name}" as select {shown} from {joined}'


def _rows(store: Store, segments: Sequence[Segment]) -> str:
    paths = ", ".join(_path(segment) for segment in segments)
    rows = f"select * from read_parquet([{paths}], union_by_name = true, filename = true)"
    twice = [
        f"(filename = {_path(segment)} and cell in ({', '.join(map(_quoted, shadowed))}))"
        for segment in segments
        if (shadowed := store.shadowed(segment))
    ]
    return f"{rows} where not ({' or '.join(twice)})" if twice else rows


def cells_table(stored: Sequence[Stored]) -> pa.Table:
    """All cells, with one column for each spec."""
    specs = sorted({key for cell in stored for key in cell.specs} - {*_CELL, "specs"})
    return pa.table(
        {
            "name": pa.array([cell.name for cell in stored], pa.string()),
            "kind": pa.array([cell.kind for cell in stored], pa.string()),
            **{key: _column([cell.specs.get(key) for cell in stored]) for key in specs},
            "specs": pa.array([json.dumps(cell.specs, ensure_ascii=False) for cell in stored], pa.string()),
            "parents": pa.array([cell.parents for cell in stored], pa.list_(pa.string())),
            "rows": pa.array([cell.rows for cell in stored], pa.int64()),
            "seconds": pa.array([cell.seconds for cell in stored], pa.float64()),
            "forward": pa.array([cell.forward for cell in stored], pa.int64()),
            "backward": pa.array([cell.backward for cell in stored], pa.int64()),
            "finished": pa.array([int(cell.finished * 1000) for cell in stored], pa.timestamp("ms")),
            "host": pa.array([cell.host for cell in stored], pa.string()),
            "error": pa.array([cell.error or None for cell in stored], pa.string()),
        }
    )


def _column(values: Sequence[Any]) -> pa.Array:
    """Values of one type unchanged; mixed types (a target may be a name or a number) as text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds and any(kinds <= alike for alike in ({bool}, {int, float}, {str})):
        return pa.array(values, pa.float64() if float in kinds else None)
    texts = [value if isinstance(value, str | None) else json.dumps(value, ensure_ascii=False) for value in values]
    return pa.array(texts, pa.string())


def _path(segment: Segment) -> str:
    return _quoted(str(segment.path.absolute()))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def plain_rows(table: pa.Table) -> list[list[Any]]:
    """The rows of an answer as plain Python values, including dates outside Python's calendar.

    One value per column, also for columns of the same name.
    """
    columns = [[_plain_value(value) for value in column] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []


def _plain_value(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        pass  # a date or time outside Python's range, or a value that contains one
    if pa.types.is_map(value.type):
        return {_plain_value(entry["key"]): _plain_value(entry["value"]) for entry in value.values}
    if pa.types.is_struct(value.type):
        return {name: _plain_value(value[name]) for name in value}
    if pa.types.is_nested(value.type):
        return [_plain_value(item) for item in value.values]
    # infinity, -infinity, or the date with its real year
    unit: Any = "D" if pa.types.is_date(value.type) else value.type.unit
    number = value.value
    if abs(number) == _ENDS.get(unit, 2**63 - 1):
        return "infinity" if number > 0 else "-infinity"
    return str(np.datetime64(number, unit)).replace("T", " ")
