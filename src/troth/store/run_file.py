"""run.json: the format, the versions, hardware and commands of a run, its models and data with their fingerprints."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from troth.core.errors import TrothError
from troth.core.files import write_aside
from troth.store import quarantine, records
from troth.store.cells import FORMAT_VERSION


def read(folder: Path) -> dict[str, Any] | None:
    """What it says; None where there is none yet."""
    path = folder / "run.json"
    try:
        version = _format(records.load(path))
        if version > FORMAT_VERSION:
            raise TrothError(
                f"{folder} has format {version}, of a newer troth; this one reads up to {FORMAT_VERSION}: "
                "update troth, or use another folder"
            )
        return records.read(path, records.About)
    except (FileNotFoundError, NotADirectoryError):
        return None


def add(folder: Path, facts: Mapping[str, Any]) -> None:
    """Adds to it; mappings and lists grow, anything else is replaced."""
    try:
        about = read(folder)
    except records.DamagedError as damage:  # since the run began
        quarantine.set_aside(folder, damage.path)
        about = None
    about = about or {"format": FORMAT_VERSION, "created": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
    if _format(about) < FORMAT_VERSION:  # its scores mean something else: both would be in one table
        raise TrothError(f"{folder} is a run of an earlier troth: it can be read, not continued; name a new folder")
    for key, value in facts.items():
        if isinstance(value, Mapping):
            about[key] = {**about.get(key, {}), **value}
        elif isinstance(value, list):
            before = about.get(key, [])
            about[key] = [*before, *(item for item in value if item not in before)]
        else:
            about[key] = value
    write_aside(folder / "run.json", json.dumps(about, indent=2, ensure_ascii=False).encode() + b"\n")


def _format(about: Any) -> int:
    version = about.get("format") if isinstance(about, dict) else None
    return version if isinstance(version, int) else 0
