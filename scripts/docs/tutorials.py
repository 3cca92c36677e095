"""Runs the tutorials in docs/guide/tutorials from top to bottom and keeps what they show.

python scripts/docs/tutorials.py               runs and writes all of them
python scripts/docs/tutorials.py first_steps   one
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "guide" / "tutorials"


def run(path: Path) -> nbformat.NotebookNode:
    """The notebook with what its cells show now; the first error ends it, with the cell and the traceback."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        place = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources=place, coalesce_streams=True).execute()
    for cell in notebook.cells:
        cell.metadata.clear()  # when it was run
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


def main(arguments: Sequence[str]) -> None:
    for path in sorted(TUTORIALS.glob("*.ipynb")):
        if not arguments or path.stem in arguments:
            nbformat.write(run(path), path)
            print(path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
