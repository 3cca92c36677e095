"""The cells of an Arrow table as plain Python values, also those that Python's calendar does not have."""

from typing import Any

import numpy as np
import pyarrow as pa

_ENDS = {"D": 2**31 - 1}  # DuckDB's infinite date, in days; infinite times are the largest 64-bit number


def plain_rows(table: pa.Table) -> list[list[Any]]:
    """Row by row, a value per column: two columns of one name keep their own values."""
    columns = [[_plain(value) for value in column] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []


def _plain(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        pass  # a date or time beyond Python's, or something that holds one
    if pa.types.is_map(value.type):
        return {_plain(entry["key"]): _plain(entry["value"]) for entry in value.values}
    if pa.types.is_struct(value.type):
        return {name: _plain(value[name]) for name in value}
    if pa.types.is_nested(value.type):
        return [_plain(item) for item in value.values]
    # infinity, -infinity, or the date with its true year
    unit: Any = "D" if pa.types.is_date(value.type) else value.type.unit
    number = value.value
    if abs(number) == _ENDS.get(unit, 2**63 - 1):
        return "infinity" if number > 0 else "-infinity"
    return str(np.datetime64(number, unit)).replace("T", " ")
