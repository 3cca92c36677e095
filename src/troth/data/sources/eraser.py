"""The layout of the ERASER benchmark (DeYoung et al. 2020): annotations in <split>.jsonl, texts in docs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from troth.core import reading
from troth.core.errors import TrothError
from troth.data.sources.rationales import token_spans
from troth.data.sources.readers import Table, read_lines


def is_eraser(folder: Path) -> bool:
    return (folder / "docs").is_dir() or (folder / "docs.jsonl").exists()


def read_eraser(folder: Path, annotations: Path, split: str) -> Table:
    """One row per annotation; evidence becomes character spans, whatever group it is in."""
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
        raise TrothError(f"{where}: docids and annotation_id must be texts, not {str(names)[:40]}")
    texts = [documents.text(where, name) for name in names]
    # Token offsets count white-space tokens of one document, so those of later documents move on.
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
    """The pieces of all groups, each with its document and its tokens."""
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
