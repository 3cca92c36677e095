"""Lists runs, and exports their explanations as a file for other programs and for training."""

import json
from pathlib import Path
from typing import Any

from troth.core.errors import TrothError, unknown
from troth.core.files import write_aside
from troth.store.store import Store


def list_runs(folder: str | Path) -> list[dict[str, Any]]:
    """The runs in a folder, newest first, or the run that the folder is; an unreadable run comes with the reason."""
    folder = Path(folder)
    if not folder.is_dir():
        raise TrothError(f"there is no folder {folder}; `troth bench` and `troth sweep` create one")
    paths = [folder] if (folder / "run.json").is_file() else [path.parent for path in folder.glob("*/run.json")]
    return sorted(map(_describe, paths), key=lambda run: (run["created"], run["run"]), reverse=True)


def _describe(path: Path) -> dict[str, Any]:
    run: dict[str, Any] = {"run": str(path), "problem": "", "created": ""}
    try:
        store = Store(path)
        about = store.about() or {}
        size = sum(_size(file) for file in path.rglob("*"))
    except (TrothError, OSError) as error:
        return {**run, "problem": str(error)}
    return {
        **run,
        "created": about.get("created", ""),
        "models": [*about.get("models", {})],
        "data": [*about.get("data", {})],
        "seeds": about.get("seeds", []),
        "planned": about.get("planned", 0),
        "finished": len(store.names()),
        "failed": len(store.failed()),
        "bytes": size,
    }


def _size(file: Path) -> int:
    try:
        return file.stat().st_size if file.is_file() else 0
    except OSError:
        return 0  # renamed in the meantime by a running process


def is_run(source: str) -> bool:
    """Whether a source has the form RUN or RUN:EXPLAINER, where RUN is the folder of a run."""
    return (Path(source.rpartition(":")[0] or source) / "run.json").is_file() or (Path(source) / "run.json").is_file()


def exported(source: str) -> str:
    """Writes the explanations of RUN:EXPLAINER to a file next to them, one per line, and returns its path.

    EXPLAINER is an explainer as the run names it, or the name of a cell; a run with a single explanation needs neither.
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
        raise TrothError(f"{folder} contains {len(matching)} explanations; name one of {which}: {folder}:NAME")
    path = store.folder / f"{matching[0].name}.jsonl"
    lines = []
    for row in store.table(matching[0].name).to_pylist():
        spans = [list(span) for span in zip(row["starts"], row["ends"], strict=True)]
        lines.append({"id": row["example_id"], "spans": spans, "segments": row["segments"], "scores": row["scores"]})
    write_aside(path, "".join(json.dumps(line) + "\n" for line in lines).encode())
    return str(path)
