"""Stored explanations as a file that other programs, and trainings, read."""

import json
from pathlib import Path

from troth.core.errors import TrothError, unknown
from troth.core.files import write_aside
from troth.store.store import Store


def is_run(source: str) -> bool:
    """Whether a source is RUN or RUN:EXPLAINER, where RUN is a run's folder."""
    return (Path(source.rpartition(":")[0] or source) / "run.json").is_file() or (Path(source) / "run.json").is_file()


def exported(source: str) -> str:
    """The explanations of RUN:EXPLAINER, one per line, in a file next to them; its path.

    EXPLAINER is an explainer as the run names it, or a cell's name; a run with one explanation needs neither.
    """
    folder, _, name = (source, "", "") if (Path(source) / "run.json").is_file() else source.rpartition(":")
    store = Store(folder)
    cells = {cell.name: cell for cell in store.cells() if cell.kind == "explanation" and not cell.error}
    matching = [cell for cell in cells.values() if name in ("", cell.specs["explainer"], cell.name)]
    names = sorted({str(cell.specs["explainer"]) for cell in cells.values()})
    if not matching:
        raise unknown(f"explanation in {folder}", name, names)
    if len(matching) > 1:
        which = ", ".join(names) if len(names) > 1 else ", ".join(sorted(cell.name for cell in matching))
        raise TrothError(f"{folder} holds {len(matching)} explanations; name one of {which}: {folder}:NAME")
    path = store.folder / f"{matching[0].name}.jsonl"
    lines = []
    for row in store.table(matching[0].name).to_pylist():
        spans = [list(span) for span in zip(row["starts"], row["ends"], strict=True)]
        lines.append({"id": row["example_id"], "spans": spans, "segments": row["segments"], "scores": row["scores"]})
    write_aside(path, "".join(json.dumps(line) + "\n" for line in lines).encode())
    return str(path)
