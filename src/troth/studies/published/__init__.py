"""The papers' printed numbers, one csv a table, to be shown beside ours."""

from __future__ import annotations

import csv
from pathlib import Path

from troth.core.errors import unknown


def read(name: str) -> list[dict[str, str]]:
    """The rows of a table, every value as it is printed.

    >>> read("aml_human")[0]["dataset"]
    'MovieReviews'
    """
    file = Path(__file__).with_name(f"{name}.csv")
    if not file.is_file():
        raise unknown("published table", name, sorted(path.stem for path in file.parent.glob("*.csv")))
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))
