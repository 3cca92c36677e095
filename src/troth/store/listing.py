"""What runs there are."""

from pathlib import Path
from typing import Any

from troth.core.errors import TrothError
from troth.store.store import Store


def list_runs(folder: str | Path) -> list[dict[str, Any]]:
    """The runs in a folder, newest first, or the one that it is; a run that cannot be read says why."""
    folder = Path(folder)
    if not folder.is_dir():
        raise TrothError(f"there is no folder {folder}; `troth bench` and `troth sweep` make one")
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
        return 0  # renamed by a run under way
