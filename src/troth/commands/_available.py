"""Which data sets are on this machine, read from files alone: no library is imported for it."""

from __future__ import annotations

import ast
import os
from pathlib import Path

from troth.core import catalog
from troth.core.hub import is_cached

_ARCHIVES = {"babi": "tasks_1-20_v1-2/en-10k"}  # folders in $TROTH_DATA that hold several data sets


def place_of(name: str) -> str:
    """Where a data set is: "here" (shipped, made, in $TROTH_DATA or in the hub's cache), "on the hub" or "not here"."""
    bases, hub = _written(name)
    if "Dataset" in bases or _folder(name) is not None:
        return "here"
    if not hub:
        return "not here"
    return "here" if is_cached(f"datasets/{hub.partition(':')[0]}") else "on the hub"


def data_folder_is_there() -> bool:
    return "TROTH_DATA" in os.environ and Path(os.environ["TROTH_DATA"]).is_dir()


def data_folder() -> str:
    """One line on $TROTH_DATA: where it is and how many data sets it has."""
    if "TROTH_DATA" not in os.environ:
        return "not set; where data sets are kept, a folder each: export TROTH_DATA=~/data"
    folder = os.environ["TROTH_DATA"]
    if not data_folder_is_there():
        return f"{folder} is not a folder"
    names = catalog.names("data")
    return f"{folder}: {sum(_folder(name) is not None for name in names)} of {len(names)} data sets"


def _folder(name: str) -> Path | None:
    if "TROTH_DATA" not in os.environ:
        return None
    places = [name, *(archive for begin, archive in _ARCHIVES.items() if name.startswith(begin))]
    return next((path for path in (Path(os.environ["TROTH_DATA"]) / place for place in places) if path.is_dir()), None)


def _written(name: str) -> tuple[list[str], str]:
    """The classes that an entry extends and its name on the hub, as its file says."""
    tree = ast.parse(catalog.file("data", name).read_text(encoding="utf-8"))
    entry = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.decorator_list)
    hubs = [
        node.value.value
        for node in entry.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        if isinstance(node.targets[0], ast.Name) and node.targets[0].id == "hub"
    ]
    return [ast.unparse(base) for base in entry.bases], str(hubs[0]) if hubs else ""
