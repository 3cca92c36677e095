"""Every file and folder of a run, harmed in every way: the damage is named, and the run ends with the same table."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time

import pytest
from tests.sweep.works import cell_of, expected, ladder

from sampled import every
from troth.core.errors import TrothError
from troth.store.runs import list_runs
from troth.store.store import Store
from troth.sweep.run import run

TOMORROW = time.time() + 86_400


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write(content):
    def harm(path):
        remove(path)
        path.write_bytes(content)

    return harm


def link_to_nowhere(path):
    remove(path)
    path.symlink_to(path.parent / "gone" / "for good")


def folder_instead(path):
    remove(path)
    path.mkdir()
    (path / "something").write_text("of somebody else's")


def queue_instead(path):
    remove(path)
    os.mkfifo(path)  # reading it would wait for ever


def half(path):
    data = path.read_bytes()
    remove(path)
    path.write_bytes(data[: len(data) // 2])


def wrong_values(path):
    """Every value is of another type."""
    data = json.loads(path.read_text())
    path.write_text(
        json.dumps({key: 7 if isinstance(value, str | dict | list) else "7" for key, value in data.items()})
    )


def lacks_everything(path):
    path.write_text("{}")


def huge_numbers(path):
    data = json.loads(path.read_text())
    changed = {key: 10**300 if isinstance(value, float) else value for key, value in data.items()}
    path.write_text(json.dumps({**changed, "seconds": 1e999, "planned": 10**30, "pid": "9" * 40}))


ANY_FILE = {
    "missing": remove,
    "empty": write(b""),
    "half": half,
    "binary": write(bytes(range(256)) * 3),
    "a link to nowhere": link_to_nowhere,
    "a folder": folder_instead,
    "a queue": queue_instead,
}
JSON = {
    "a list": write(b"[]"),
    "a number": write(b"12"),
    "null": write(b"null"),
    "nested deeply": write(b"[" * 100_000),
    "a long number": write(b"9" * 10_000),
    "latin-1": write('{"format": "é"}'.encode("latin-1")),
    "wrong values": wrong_values,
    "lacks everything": lacks_everything,
    "huge numbers": huge_numbers,
}
PLACE = {"a file": write(b"x"), "a link to nowhere": link_to_nowhere, "missing": remove}


@pytest.fixture(autouse=True)
def patience():
    """A run that waits for ever fails."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("the run waits for ever"))
    signal.alarm(600)
    yield
    signal.alarm(0)


@pytest.fixture
def plan(tmp_path):
    plan = ladder(2, 2)
    plan.add(cell_of("failing", {"number": 7, "obstacle": str(tmp_path / "obstacle")}))
    return plan


@pytest.fixture
def folder(tmp_path, plan):
    """A run of which one cell failed and one was not done, with its claim still there."""
    (tmp_path / "obstacle").touch()
    run(plan, Store(tmp_path / "runs" / "run"), workers=1)
    (tmp_path / "obstacle").unlink()
    store = Store(tmp_path / "runs" / "run")
    kept = store.cells()
    (segment,) = (path for path in (store.folder / "segments").iterdir() if path.name.startswith("metric"))
    open_cell = next(cell for cell in kept if cell.kind == "metric")
    tables = {cell.name: store.table(cell.name) for cell in kept if cell.kind == "metric"}
    segment.unlink()
    for cell in kept:
        if cell.kind == "metric" and cell.name != open_cell.name:
            store.write(plan.cells[cell.name], tables[cell.name])
    (store.folder / "claims").mkdir(exist_ok=True)
    owner = {"host": "elsewhere", "pid": "1", "started": "1", "token": "t"}
    (store.folder / "claims" / open_cell.name).write_text(json.dumps(owner))
    (store.folder / "claims" / f".{open_cell.name}.removal").write_text("")
    for path in (store.folder / "claims").iterdir():
        os.utime(path, (1, 1))
    return store.folder


def file_of(folder, kind):
    if kind == "run":
        return folder / "run.json"
    if kind == "claim":
        return min((folder / "claims").glob("[!.]*"))
    return min((folder / {"failure": "failed", "cell": "cells", "segment": "segments"}[kind]).iterdir())


CASES = [
    *[(kind, harm) for kind in ("run", "failure", "claim", "cell", "segment") for harm in ANY_FILE],
    *[(kind, harm) for kind in ("run", "failure", "claim") for harm in JSON],
]


@pytest.mark.parametrize(("kind", "harm"), every(3, CASES))
def test_a_damaged_file_ends_in_the_same_table(folder, plan, kind, harm):
    path = file_of(folder, kind)
    {**ANY_FILE, **JSON}[harm](path)
    if path.exists() and kind == "claim":
        os.utime(path, (1, 1))
    list_runs(folder.parent)  # says so, and goes on
    outcome = run(plan, Store(folder), workers=1, retry=kind != "failure")
    if kind != "failure":
        assert outcome.complete
    if harm != "missing" and kind != "claim":
        assert [note for note in outcome.notes if str(path) in note and "set aside" in note]
    assert run(plan, Store(folder), workers=1, retry=True).complete
    store = Store(folder)
    right = expected(plan)
    assert {name: store.table(name).column("value").to_pylist() for name in plan.cells} == right
    assert store.repair() + store.check() == []
    (listed,) = list_runs(folder.parent)
    assert (listed["problem"], listed["finished"], listed["failed"]) == ("", len(plan), 0)


@pytest.mark.parametrize("harm", PLACE)
@pytest.mark.parametrize("place", ["cells", "segments", "failed", "claims", "damaged", "files"])
def test_a_place_that_is_no_folder_does_not_block(folder, plan, place, harm):
    PLACE[harm](folder / place)
    outcome = run(plan, Store(folder), workers=1, retry=True)
    assert outcome.complete
    if harm != "missing":
        assert [note for note in outcome.notes if note.startswith(f"{folder / place} is ")]
    assert {name: Store(folder).table(name).column("value").to_pylist() for name in plan.cells} == expected(plan)


@pytest.mark.parametrize("name", ["claim", "removal"])
def test_a_claim_dated_tomorrow_is_dead(folder, plan, name):
    for path in (folder / "claims").glob("[!.]*" if name == "claim" else ".*"):
        os.utime(path, (TOMORROW, TOMORROW))
    assert run(plan, Store(folder), workers=1, retry=True).complete


def test_a_link_to_nowhere_is_no_run(tmp_path):
    link_to_nowhere(tmp_path / "run")
    with pytest.raises(TrothError, match="is a broken link; a run needs a folder"):
        Store(tmp_path / "run")


def test_one_bad_run_does_not_hide_the_others(folder, plan):
    runs = folder.parent
    for name, harm in {**ANY_FILE, **JSON}.items():
        shutil.copytree(folder, runs / name)
        harm(runs / name / "run.json")
    (runs / "locked").mkdir()
    found = {run["run"]: run["problem"] for run in list_runs(runs)}
    assert found[str(folder)] == ""
    seen = {name for name in {**ANY_FILE, **JSON} if str(runs / name) in found}
    assert seen >= {*JSON, "empty", "half", "binary", "a folder", "a queue"}
    assert all("run.json" in found[str(runs / name)] for name in seen)
