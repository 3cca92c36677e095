"""The splits of a folder: a saved `datasets` folder, the ERASER layout, or one file (or several shards) per split.

The ERASER benchmark (DeYoung et al. 2020) has annotations in <split>.jsonl and texts in docs.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from troth.core import reading
from troth.core.errors import TrothError
from troth.core.extras import importing
from troth.data._base import standard_split
from troth.data.sources.columns import token_spans
from troth.data.sources.readers import Table, is_data_file, read_file, read_lines, table_of

Tables = dict[str, Callable[[], Table]]


def tables_in(folder: Path) -> Tables:
    """The splits of a folder by name; nothing is read until a split is requested."""
    if (folder / "dataset_dict.json").exists():
        names = _record(folder / "dataset_dict.json").get("splits")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise _not_saved(folder, "dataset_dict.json lists no splits")
        return {name: partial(_saved, folder / name, name) for name in names}
    if (folder / "state.json").exists():
        name = _record(folder / "state.json").get("_split") or "all"
        return {str(name): partial(_saved, folder, str(name))}
    files = sorted(path for path in folder.iterdir() if is_data_file(path) and path.name != "dataset_infos.json")
    if (folder / "docs").is_dir() or (folder / "docs.jsonl").exists():  # ERASER
        splits = [path for path in files if not path.name.startswith("docs.")]
        return {split_name(path): partial(read_eraser, folder, path, split_name(path)) for path in splits}
    if not files and (folder / "data").is_dir():
        return tables_in(folder / "data")
    if not files:
        raise TrothError(
            f"{folder} contains no data: no jsonl, json, csv, tsv or parquet file and no saved `datasets` folder"
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
    with importing("hub", "a saved `datasets` folder"):
        import datasets

    for file in folder.glob("*.arrow"):
        reading.require_file(file, reading.DATA)
    try:
        saved = datasets.load_from_disk(str(folder))
    except Exception as problem:  # many kinds of damage with the same remedy
        raise _not_saved(folder, str(problem)) from problem
    return table_of(saved, folder.name, split)


def _record(path: Path) -> dict[str, Any]:
    """The metadata that `datasets` writes to a folder it saves."""
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


def read_eraser(folder: Path, annotations: Path, split: str) -> Table:
    """One row per annotation; evidence becomes character spans, regardless of its group."""
    documents = _Documents(folder)
    rows = [
        _row(annotations.name, number, row, documents) for number, row in enumerate(read_lines(annotations), start=1)
    ]
    return Table(annotations.name, ("id", "text", "text_pair", "label", "rationale"), rows, split=split)


class _Documents:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "docs"
        packed = folder / "docs.jsonl"
        self.texts: dict[str, str] = {}
        if packed.exists():
            for number, row in enumerate(read_lines(packed), start=1):
                name, text = row.get("docid"), row.get("document")
                if not isinstance(name, str) or not isinstance(text, str):
                    raise TrothError(f"docs.jsonl: row {number} is not an ERASER document: it needs docid and document")
                self.texts[name] = text

    def text(self, where: str, name: str) -> str:
        if name not in self.texts:
            path = self.folder / name
            if not path.is_file() or not path.resolve().is_relative_to(self.folder.resolve()):
                raise TrothError(f"{where} names the document {name!r}, which is not in docs")
            try:
                self.texts[name] = reading.text(path)
            except UnicodeDecodeError:
                raise TrothError(f"docs/{name} is not UTF-8; save the file as UTF-8") from None
        return self.texts[name]


def _row(source: str, number: int, row: dict[str, Any], documents: _Documents) -> dict[str, Any]:
    where = f"{source}: row {number}"
    if "annotation_id" not in row or "classification" not in row:
        raise TrothError(f"{where} is not an ERASER annotation: it needs annotation_id and classification")
    evidence = _evidence(where, row.get("evidences") or [])
    names = row.get("docids") or sorted({piece["docid"] for piece in evidence}) or [row["annotation_id"]]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TrothError(f"{where}: docids and annotation_id must be strings, not {str(names)[:40]}")
    texts = [documents.text(where, name) for name in names]
    # Token offsets count the white-space tokens of one document, so those of later documents are shifted.
    first, count = {}, 0
    for name, text in zip(names, texts, strict=True):
        first[name] = count
        count += len(text.split())
    joined = "\n".join(texts)
    for piece in evidence:
        if piece["docid"] not in first:
            raise TrothError(f"{where} has evidence in {piece['docid']!r}, which is not among its docids")
    pieces = [
        (first[piece["docid"]] + piece["start_token"], first[piece["docid"]] + piece["end_token"]) for piece in evidence
    ]
    try:
        rationale = token_spans(joined, pieces)
    except ValueError as problem:
        raise TrothError(f"{where}: {problem}") from None
    return {
        "id": row["annotation_id"],
        "text": joined,
        "text_pair": row.get("query") or None,
        "label": row["classification"],
        "rationale": rationale,
    }


def _evidence(where: str, groups: Any) -> list[dict[str, Any]]:
    """The evidence of all groups, each with its document and its tokens."""
    shape = {"docid": str, "start_token": int, "end_token": int}
    pieces = []
    for group in groups if isinstance(groups, list) else [groups]:
        for piece in group if isinstance(group, list) else [group]:
            if not isinstance(piece, dict) or not all(isinstance(piece.get(key), kind) for key, kind in shape.items()):
                raise TrothError(
                    f"{where}: evidences must be groups of pieces with docid, start_token and end_token, "
                    f"not {str(piece)[:40]}"
                )
            pieces.append(piece)
    return pieces
