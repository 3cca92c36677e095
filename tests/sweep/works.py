"""Works and plans of the sweep tests: light enough for many processes, each number known beforehand."""

from __future__ import annotations

import errno
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from troth.core.errors import TrothError
from troth.store.cells import Cell, CellOutput, Plan

HERE = "tests.sweep.works"


def numbers(cell, parents, context):
    """Five rows: the cell's number plus what its parents' rows sum up to."""
    time.sleep(cell.specs.get("sleep", 0))
    start = cell.specs["number"] + sum(sum(parent.column("value").to_pylist()) for parent in parents)
    rows = [{"example_id": str(row), "value": float(start + row), "why": "", "record": "{}"} for row in range(5)]
    if "journal" in cell.specs:
        with open(cell.specs["journal"], "a") as journal:
            journal.write(json.dumps([cell.name, os.getpid()]) + "\n")
    return CellOutput(pa.Table.from_pylist(rows), forward=5, backward=cell.specs["number"])


def fails(cell, parents, context):
    """Fails while a file is there, and says which."""
    if Path(cell.specs["obstacle"]).exists():
        if cell.specs.get("user_error"):
            raise TrothError("this text has no label")
        return CellOutput(pa.table({"value": [1 / 0]}))
    return numbers(cell, parents, context)


def dies(cell, parents, context):
    """Takes its process down, as often as there are files to remove."""
    for obstacle in sorted(Path(cell.specs["obstacles"]).glob("*")):
        obstacle.unlink()
        os._exit(9)
    return numbers(cell, parents, context)


def fills_disk(cell, parents, context):
    raise OSError(errno.ENOSPC, "No space left on device", "model.safetensors")


def makes_folder(cell, parents, context):
    """Like a training: rows, and a folder in the store."""
    with context.new_folder(cell) as folder:
        (folder / "weights.txt").write_text(str(cell.specs["number"]))
    return replace(numbers(cell, parents, context), folders=(cell.name,))


def reads_folder(cell, parents, context):
    weights = (context.folder(cell.parents[0]) / "weights.txt").read_text()
    return CellOutput(pa.table({"value": [float(weights)]}))


def reads_named_folder(cell, parents, context):
    """Like a metric: the model is its grandparent's."""
    weights = (context.folder(cell.specs["model"].removeprefix("cell:")) / "weights.txt").read_text()
    return CellOutput(pa.table({"value": [float(weights)]}))


def remembers(cell, parents, context):
    """How often its worker had to make what it keeps."""
    made = context.once("counter", list)
    made.append(cell.name)
    return CellOutput(pa.table({"value": [float(len(made))], "pid": [os.getpid()]}))


def loads(cell, parents, context):
    """Spends time on a model, which is no time of its own."""
    context.loading += 50.0
    return numbers(cell, parents, context)


WORKS = {
    "loading": f"{HERE}:loads",
    "explanation": f"{HERE}:numbers",
    "metric": f"{HERE}:numbers",
    "failing": f"{HERE}:fails",
    "dying": f"{HERE}:dies",
    "filling": f"{HERE}:fills_disk",
    "training": f"{HERE}:makes_folder",
    "reading": f"{HERE}:reads_folder",
    "naming": f"{HERE}:reads_named_folder",
    "counting": f"{HERE}:remembers",
}


def cell_of(kind: str, specs: dict, parents: tuple[str, ...] = ()) -> Cell:
    """A cell that a runner of this file carries out."""
    return Cell(kind, specs, parents, WORKS[kind])


def ladder(explanations: int, metrics: int, **specs) -> Plan:
    """Explanations with metrics hanging on each, and one chain through all explanations' first metrics."""
    plan = Plan()
    for number in range(explanations):
        common = {"number": number, "model": f"model {number % 3}", "explainer": f"method {number % 4}", **specs}
        explanation = plan.add(cell_of("explanation", common))
        for metric in range(metrics):
            plan.add(cell_of("metric", {**common, "metric": f"metric {metric}"}, (explanation.name,)))
    return plan


def expected(plan: Plan) -> dict[str, list[float]]:
    """What every cell of a plan must hold, worked out from the definition of `numbers`."""
    values: dict[str, list[float]] = {}
    for name, cell in plan.cells.items():
        start = cell.specs["number"] + sum(sum(values[parent]) for parent in cell.parents)
        values[name] = [float(start + row) for row in range(5)]
    return values
