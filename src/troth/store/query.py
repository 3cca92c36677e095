"""SQL over a run, read-only: a view of all cells, and one of each kind's rows with the specs of their cells.

`scores` has one row per example and seed; what is computed from rows, like the leaderboard, is passed in as a view.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from troth.core.errors import TrothError
from troth.store.segments import Segment
from troth.store.specs import CheckSpec, DataSpec, ExplanationSpec, MetricSpec
from troth.store.store import Store, Stored

# A kind's rows are called by what they are; other kinds by their own name.
VIEWS = {
    ExplanationSpec.kind: ("explanations", ExplanationSpec.columns),
    MetricSpec.kind: ("scores", MetricSpec.columns),
    DataSpec.kind: ("examples", DataSpec.columns),
    CheckSpec.kind: ("checks", CheckSpec.columns),
}
_CELL = ("name", "kind", "parents", "rows", "seconds", "forward", "backward", "finished", "host", "error")


@dataclass(frozen=True)
class View:
    """A table that is computed only for SQL that names it; other SQL sees its columns."""

    columns: pa.Schema
    rows: Callable[[], pa.Table]


def query(store: Store, sql: str, views: Mapping[str, View] | None = None) -> pa.Table:
    """The answer to one SELECT over `cells`, `explanations`, `scores`, `examples` and what other kinds there are.

    A column whose name another has already is numbered: value, value_2.
    """
    import duckdb

    connection = connect(store)
    try:
        statements = connection.extract_statements(sql)
        kinds = [str(statement.type).rpartition(".")[2] for statement in statements]
        if kinds != ["SELECT"]:
            other = next((kind for kind in kinds if kind != "SELECT"), "nothing" if not kinds else "several statements")
            raise TrothError(f"a run can only be read: give one SELECT, not {other}")
        for name, view in (views or {}).items():
            named = name in sql.lower()
            connection.register(name, view.rows() if named else view.columns.empty_table())
        answer = connection.sql(sql).to_arrow_table()
        return answer.rename_columns(_numbered(answer.column_names))
    except duckdb.Error as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise TrothError(" ".join(lines[:2]) if len(lines) > 1 and "Candidate" in lines[1] else lines[0]) from None
    finally:
        connection.close()


def _numbered(names: Sequence[str]) -> list[str]:
    """Every name once: a, a, a_2 become a, a_3, a_2."""
    taken, unique = set(names), list[str]()
    for name in names:
        number, free = 2, name
        while free in unique or (free != name and free in taken):
            free, number = f"{name}_{number}", number + 1
        unique.append(free)
    return unique


def connect(store: Store) -> Any:
    """A DuckDB connection that sees the run's views, and no other file."""
    import duckdb

    store.refresh()
    segments = store.segments()
    stored = store.cells()
    connection = duckdb.connect()
    connection.execute("set allowed_directories = ?", [[str(store.folder.absolute())]])
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    table = cells_table(stored)
    connection.register("stored_cells", table)
    connection.execute("create view cells as select * from stored_cells")
    for kind in sorted({segment.kind for segment in segments} | VIEWS.keys()):
        of_kind = [segment for segment in segments if segment.kind == kind]
        name, columns = VIEWS.get(kind, (kind, None))
        _create_view(connection, name, columns, store, of_kind, table.column_names)
    return connection


def _create_view(
    connection: Any, name: str, columns: Any, store: Store, segments: Sequence[Segment], specs: Sequence[str]
) -> None:
    if segments:
        own = {column for segment in segments for column in segment.columns.names}
        rows = _rows(store, segments)
    else:
        # A query over a run without explanations answers with no rows, not with an error.
        empty = pa.schema([("cell", pa.string()), *columns]).empty_table()
        connection.register(f"no_{name}", empty)
        own, rows = set(empty.column_names), f'select *, null as filename from "no_{name}"'
    of_cell = [
        f'cells."{column}" as "spec_{column}"' if column in own else f'cells."{column}"'
        for column in specs
        if column not in (*_CELL, "specs")
    ]
    shown = ", ".join([*of_cell, "stored.* exclude (filename)"])
    joined = f"({rows}) stored join cells on cells.name = stored.cell"
    connection.execute(f'create view "{name}" as select {shown} from {joined}')


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
    """All cells, a column for each spec."""
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
    """Values of one type as they are; mixed ones (a target may be a name or a number) as text."""
    kinds = {type(value) for value in values if value is not None}
    for plain in (bool, int, float, str):
        if kinds <= {plain}:
            return pa.array(values, None if kinds else pa.string())
    if kinds <= {int, float}:
        return pa.array(values, pa.float64())
    texts = [value if isinstance(value, str | None) else json.dumps(value, ensure_ascii=False) for value in values]
    return pa.array(texts, pa.string())


def _path(segment: Segment) -> str:
    return _quoted(str(segment.path.absolute()))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
