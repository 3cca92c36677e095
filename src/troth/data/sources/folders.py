"""The splits of a folder: a saved `datasets` folder, the ERASER layout, or one file (or several shards) per split."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from troth.core import reading
from troth.core.errors import TrothError
from troth.data._base import standard_split
from troth.data.sources.eraser import is_eraser, read_eraser
from troth.data.sources.hub import table_of
from troth.data.sources.readers import Table, is_data_file, read_file

Tables = dict[str, Callable[[], Table]]


def tables_in(folder: Path) -> Tables:
    """The splits of a folder by name; nothing is read before it is asked for."""
    if (folder / "dataset_dict.json").exists():
        names = _record(folder / "dataset_dict.json").get("splits")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise _not_saved(folder, "dataset_dict.json lists no splits")
        return {name: partial(_saved, folder / name, name) for name in names}
    if (folder / "state.json").exists():
        name = _record(folder / "state.json").get("_split") or "all"
        return {str(name): partial(_saved, folder, str(name))}
    files = sorted(path for path in folder.iterdir() if is_data_file(path) and path.name != "dataset_infos.json")
    if is_eraser(folder):
        splits = [path for path in files if not path.name.startswith("docs.")]
        return {split_name(path): partial(read_eraser, folder, path, split_name(path)) for path in splits}
    if not files and (folder / "data").is_dir():
        return tables_in(folder / "data")
    if not files:
        raise TrothError(
            f"{folder} holds no data: no jsonl, json, csv, tsv or parquet file and no saved `datasets` folder"
        )
    by_split: dict[str, list[Path]] = {}
    for path in files:
        by_split.setdefault(split_name(path), []).append(path)
    return {name: partial(_shards, paths, name) for name, paths in by_split.items()}


def split_name(path: Path) -> str:
    """The split a file name stands for.

    >>> split_name(Path("val.jsonl.gz")), split_name(Path("train-00000-of-00002.parquet"))
    ('validation', 'train')
    """
    return standard_split(re.sub(r"-\d+(-of-\d+)?$", "", path.name.partition(".")[0]))


def _shards(paths: list[Path], split: str) -> Table:
    tables = [read_file(path) for path in paths]
    if len(tables) == 1:
        return replace(tables[0], split=split)
    rows = [row for table in tables for row in table.rows]
    return replace(tables[0], source=paths[0].parent.name, rows=rows, split=split)


def _saved(folder: Path, split: str) -> Table:
    import datasets

    for file in folder.glob("*.arrow"):
        reading.require_file(file, reading.DATA)
    try:
        saved = datasets.load_from_disk(str(folder))
    except Exception as problem:  # many kinds of damage, one remedy
        raise _not_saved(folder, str(problem)) from problem
    return table_of(saved, folder.name, split)


def _record(path: Path) -> dict[str, Any]:
    """What `datasets` notes of a folder it saved."""
    try:
        found = reading.json_of(path)
    except (OSError, ValueError) as problem:
        raise _not_saved(path.parent, f"{path.name}: {problem}") from None
    if not isinstance(found, dict):
        raise _not_saved(path.parent, f"{path.name} is not a JSON object")
    return found


def _not_saved(folder: Path, reason: str) -> TrothError:
    first_line = reason.partition("\n")[0][:100]
    return TrothError(f"{folder} cannot be read as a saved `datasets` folder ({first_line})")
