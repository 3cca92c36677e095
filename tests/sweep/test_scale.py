"""Many cells: planning, resuming and asking stay quick, and the store adds little to each cell."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from tests.sweep.works import cell_of, ladder

from troth.store.cells import Cell, Plan
from troth.store.compaction import write_segment
from troth.store.query import query
from troth.store.store import Store
from troth.sweep.run import run


def big_plan(count: int) -> Plan:
    """Cells with specs as long as real ones."""
    plan = Plan()
    for number in range(count):
        plan.add(
            Cell(
                "metric",
                {
                    "number": number,
                    "model": f"models/{number % 7}",
                    "model_fingerprint": "0123456789abcdef",
                    "data": "reviews",
                    "data_fingerprint": "0123456789abcdef0123456789abcdef",
                    "examples": 5,
                    "explainer": f"method_{number % 20}",
                    "explainer_full": f"method_{number % 20}(steps=20, baseline='zero', rule='right', moves='units')",
                    "metric": f"metric_{number % 11}",
                    "units": "word",
                    "target": "predicted",
                    "masking": "mask_token",
                    "seed": number // 1000,
                },
            )
        )
    return plan


def fill(folder: Path, plan: Plan) -> None:
    """Finished cells as a run leaves them, written a thousand at a time."""
    Store(folder).note(command="filled")
    cells = list(plan.cells.values())
    for start in range(0, len(cells), 1000):
        batch = []
        for cell in cells[start : start + 1000]:
            facts = {
                "name": cell.name,
                "kind": cell.kind,
                "specs": cell.specs,
                "parents": [],
                "rows": 5,
                "seconds": 0.1,
            }
            value = float(cell.specs["number"])
            rows = {
                "example_id": ["0", "1", "2", "3", "4"],
                "value": [value] * 5,
                "why": [""] * 5,
                "record": ["{}"] * 5,
            }
            batch.append((facts, pa.table(rows)))
        write_segment(folder, batch)


def check_scale(tmp_path: Path, count: int) -> tuple[float, float, float]:
    """Plans, resumes and queries so many cells. -> the seconds each took"""
    begun = time.perf_counter()
    plan = big_plan(count)
    planned = time.perf_counter() - begun
    fill(tmp_path / "run", plan)

    plan.add(cell_of("metric", {"number": -1}))
    begun = time.perf_counter()
    outcome = run(plan, Store(tmp_path / "run"))
    resumed = time.perf_counter() - begun
    assert (outcome.stored, outcome.computed, outcome.complete) == (count, 1, True)

    sql = "select explainer, metric, count(*) n, avg(value) v from scores where number >= 0 group by all order by all"
    begun = time.perf_counter()
    answer = query(Store(tmp_path / "run"), sql)
    asked = time.perf_counter() - begun
    assert answer.num_rows == 220
    assert sum(answer.column("n").to_pylist()) == 5 * count
    print(f"{count:,} cells: planned {planned:.2f} s, resumed {resumed:.2f} s, asked {asked:.2f} s")
    return planned, resumed, asked


def test_two_thousand_cells(tmp_path):
    check_scale(tmp_path, 2_000)


@pytest.mark.full
@pytest.mark.alone
def test_a_hundred_thousand_cells(tmp_path):
    planned, resumed, asked = check_scale(tmp_path, 100_000)
    assert planned < 15
    assert resumed < 30
    assert asked < 10


def disk_seconds(folder: Path) -> float:
    """What this disk takes to keep a small file and to drop it, which no store can save."""
    begun = time.perf_counter()
    for number in range(20):
        path = folder / str(number)
        with open(path, "wb") as file:
            file.write(b"x" * 3000)
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
    return (time.perf_counter() - begun) / 20


def overhead(tmp_path: Path, cells: int) -> float:
    store = Store(tmp_path / "run")
    plan = ladder(cells // 5, 4)
    begun = time.perf_counter()
    assert run(plan, store).computed == cells
    return (time.perf_counter() - begun) / cells


@pytest.mark.full
@pytest.mark.alone
def test_a_cell_costs_less_than_twenty_milliseconds(tmp_path):
    slow_disk = disk_seconds(tmp_path)
    each = overhead(tmp_path, 200)
    print(f"{each * 1000:.1f} ms a cell, of which the disk {slow_disk * 1000:.1f}")
    assert each < 0.020 + slow_disk


@pytest.mark.full
@pytest.mark.alone
def test_ten_thousand_cells_cost_little_each(tmp_path):
    slow_disk = disk_seconds(tmp_path)
    each = overhead(tmp_path, 10_000)
    print(f"{each * 1000:.1f} ms a cell, of which the disk {slow_disk * 1000:.1f}")
    assert each < 0.020 + slow_disk
