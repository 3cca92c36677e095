"""What `troth explain --record` keeps: one file per decision, and one page."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from troth.core.errors import TrothError

if TYPE_CHECKING:
    from troth.core.types import Attribution
    from troth.models import TextClassifier


def require_place(folder: Path) -> None:
    """One line for a folder that no record can be written to, before any work; nothing is made."""
    try:
        if folder.exists() and not folder.is_dir():
            raise TrothError(f"--record {folder}: it is a file; name a folder")
        nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    except OSError as error:
        raise TrothError(f"--record {folder}: {error.strerror}; name another folder") from None
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise TrothError(f"--record {folder}: nothing can be written to {nearest}; name another folder")


def key_of(path: Path | None, record: Path | None) -> bytes | None:
    """The key that records are signed with, where the user names one."""
    from troth.verbs import records

    if path is None:
        return None
    if record is None:
        raise TrothError("--key-file signs records; name their folder with --record")
    return records.read_key(path)


def keep(
    folder: Path,
    by_text: Sequence[Sequence[Attribution]],
    model: TextClassifier,
    source: str,
    asked: Mapping[str, Any],
    settings: Mapping[str, Any],
    key: bytes | None = None,
) -> Path:
    """Writes the records, and the page of all records in the folder, whose path it gives."""
    from troth.report import record_page
    from troth.sweep.machine import versions
    from troth.verbs import proof, records
    from troth.verbs.comparison import sentence

    proofs = [attribution.proof for row in by_text for attribution in row if attribution.proof is not None]
    proving = {"ratio": proof.RATIO, "choices": proof.CHOICES, "masking": proofs[0].masking} if proofs else None
    run = {"id": uuid4().hex, "texts": len({row[0].example.id for row in by_text})}
    # One of several targets is its record's own; so is a label, however it was chosen.
    several = isinstance(settings.get("target"), list) or model.outputs == "labels"
    used = versions()

    def of(row: Sequence[Attribution]) -> dict[str, Any]:
        return {**settings, **({"target": row[0].target} if several else {}), "proof": proving}

    decisions = [
        records.decision(
            row, model, source=source, options=asked, settings=of(row), run=run,
            versions=used, comparison=sentence(row), key=key,
        )
        for row in by_text
    ]  # fmt: skip
    records.write(folder, decisions)
    return record_page.write(folder)
