"""kill -9 at random moments: after resuming the table is the uninterrupted one, nothing lost or counted twice."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from tests.sweep.works import expected, ladder

from kills import begun, finish, kill
from troth.store.query import query
from troth.store.store import Store
from troth.sweep.run import Engine, run

EXPLANATIONS, METRICS = 12, 4
SCORES = "select cell, metric, example_id, value from scores order by all"


def climb(folder: Path, engine: Engine, address: str | None) -> None:
    """The sweep that is killed; what it did is written beside its folder."""
    plan = ladder(EXPLANATIONS, METRICS, sleep=0.02, journal=f"{folder}.journal")
    outcome = run(plan, Store(folder), engine=engine, workers=2, address=address, compact_every=10)
    facts = [outcome.computed, outcome.stored, outcome.complete]
    Path(f"{folder}.outcome").write_text(json.dumps(facts))


def done(folder: Path) -> list[str]:
    """The cells that were computed, in the works' own journal."""
    journal = Path(f"{folder}.journal")
    return [json.loads(line)[0] for line in journal.read_text().splitlines()] if journal.exists() else []


def kill_and_resume(
    tmp_path: Path, kills: int, engine: Engine, address: str | None = None, *, killed_before: int = 0
) -> None:
    """Kills a sweep again and again, each time after it has got a random bit further, then lets it finish."""
    folder = tmp_path / "run"
    chance = random.Random(kills)
    plan = ladder(EXPLANATIONS, METRICS, sleep=0.02, journal=f"{folder}.journal")
    step = len(plan) // (kills + 1)
    for _ in range(kills):
        process = begun(climb, folder, engine, address)
        goal = min(len(done(folder)) + chance.randint(1, 2 * step), len(plan) - 1)
        while process.exitcode is None and len(done(folder)) < goal:
            time.sleep(0.01)
        time.sleep(chance.random() * 0.05)
        kill(process)
    assert finish(begun(climb, folder, engine, address)) == 0
    computed, found, complete = json.loads(Path(f"{folder}.outcome").read_text())
    assert complete
    assert computed + found == len(plan)

    store = Store(folder)
    names = [cell.name for cell in store.cells()]
    assert sorted(names) == sorted(plan.cells)
    assert store.check() == []
    right = expected(plan)
    table = [
        {"cell": name, "metric": cell.specs["metric"], "example_id": str(row), "value": right[name][row]}
        for name, cell in plan.cells.items()
        if cell.kind == "metric"
        for row in range(5)
    ]
    table.sort(key=lambda row: tuple(row.values()))
    assert query(store, SCORES).to_pylist() == table
    # At most what was under way at a kill was done twice, and only to write the same again.
    assert len(plan) <= len(done(folder)) <= len(plan) + 4 * (kills + killed_before)


@pytest.mark.full
def test_a_kill(tmp_path):
    kill_and_resume(tmp_path, 1, "local")


@pytest.mark.full
def test_twenty_kills(tmp_path):
    kill_and_resume(tmp_path, 20, "local")


@pytest.mark.full
@pytest.mark.parametrize("seed", range(5))
def test_one_early_kill(tmp_path, seed):
    process = begun(climb, tmp_path / "run", "local", None)
    time.sleep(random.Random(seed).random())
    kill(process)
    kill_and_resume(tmp_path, 0, "local", killed_before=1)
