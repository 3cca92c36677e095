"""The papers' printed numbers, one csv file per table, shown next to ours."""

import csv
from functools import cache
from pathlib import Path

from troth.core.errors import unknown


@cache
def read(table: str) -> list[dict[str, str]]:
    """The rows of a table, every value as it is printed.

    >>> read("aml_human")[0]["dataset"]
    'MovieReviews'
    """
    file = Path(__file__).with_name(f"{table}.csv")
    if not file.is_file():
        raise unknown("published table", table, sorted(path.stem for path in file.parent.glob("*.csv")))
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def row(table: str, /, **wanted: str) -> dict[str, str]:
    """The first row with these values; empty if the paper has none."""
    rows = (row for row in read(table) if all(row[column] == value for column, value in wanted.items()))
    return next(rows, {})


def text(table: str, column: str = "value", /, **wanted: str) -> str | None:
    """A value as it is printed; None if the paper has none."""
    return row(table, **wanted).get(column) or None


def number(table: str, column: str = "value", /, **wanted: str) -> float | None:
    """A printed number; None where the paper has none.

    >>> number("saloss_decision_flip", "fraction", table="2", dataset="SST", method="random")
    0.66
    """
    printed = text(table, column, **wanted)
    return None if printed is None else float(printed)
