import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sweep.works import cell_of, expected, ladder

from troth.core.errors import TrothError
from troth.store.cells import Cell, Plan
from troth.store.store import Store
from troth.sweep import scheduler
from troth.sweep.context import Context
from troth.sweep.run import Outcome, run

ROOT = Path(__file__).parents[2]


def values(store: Store) -> dict[str, list[float]]:
    store.refresh()
    return {cell.name: store.table(cell.name).column("value").to_pylist() for cell in store.cells() if not cell.error}


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_a_plan_is_carried_out_and_not_repeated(tmp_path, workers):
    plan = ladder(5, 3)
    store = Store(tmp_path / "run")
    outcome = run(plan, store, workers=workers)
    assert (outcome.computed, outcome.stored, outcome.complete) == (20, 0, True)
    assert values(store) == expected(plan)
    again = run(plan, Store(tmp_path / "run"), workers=workers)
    assert (again.computed, again.stored, again.complete) == (0, 20, True)
    stored = {cell.name: cell for cell in store.cells()}
    assert all(stored[name].forward == 5 for name in plan.cells)
    assert all(stored[name].backward == cell.specs["number"] for name, cell in plan.cells.items())
    larger = run(ladder(6, 3), Store(tmp_path / "run"), workers=workers)
    assert (larger.computed, larger.stored) == (4, 20)


def test_run_json_says_what_a_run_was_made_with(tmp_path):
    plan = ladder(1, 1)
    plan.about = {
        "models": {"tiny": {"fingerprint": "ab"}},
        "data": {"reviews": {"fingerprint": "cd"}},
        "seeds": [0, 1],
    }
    store = Store(tmp_path / "run")
    run(plan, store, command="troth bench --seed 0")
    run(plan, store, command="troth bench --retry")
    about = store.about()
    assert about["models"]["tiny"]["fingerprint"] == "ab"
    assert about["data"]["reviews"]["fingerprint"] == "cd"
    assert about["seeds"] == [0, 1]
    assert {"python", "torch", "pyarrow"} <= about["versions"].keys()
    (hardware,) = about["hardware"].values()
    assert hardware["cores"] == os.cpu_count()
    assert [(one["command"], one["computed"]) for one in about["sessions"].values()] == [
        ("troth bench --seed 0", 2),
        ("troth bench --retry", 0),
    ]


def failing_plan(tmp_path, **specs) -> tuple[Plan, Cell]:
    plan = ladder(2, 1)
    broken = plan.add(cell_of("failing", {"number": 7, "obstacle": str(tmp_path / "obstacle"), **specs}))
    child = plan.add(cell_of("metric", {"number": 0}, (broken.name,)))
    plan.add(cell_of("metric", {"number": 1}, (child.name,)))
    return plan, broken


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_a_failed_cell_keeps_its_error_and_stops_nothing_else(tmp_path, workers):
    (tmp_path / "obstacle").touch()
    plan, broken = failing_plan(tmp_path)
    store = Store(tmp_path / "run")
    outcome = run(plan, store, workers=workers)
    assert (outcome.computed, len(outcome.failed), len(outcome.blocked), outcome.left) == (4, 1, 2, 0)
    assert not outcome.complete
    (failed,) = [cell for cell in store.cells() if cell.error]
    assert failed.name == broken.name
    assert failed.error == "ZeroDivisionError: division by zero"
    assert "in fails" in failed.traceback
    assert len(failed.traceback.splitlines()) < 20

    (tmp_path / "obstacle").unlink()
    again = run(plan, Store(tmp_path / "run"), workers=workers)
    assert (again.computed, len(again.failed), len(again.blocked)) == (0, 1, 2)
    retried = run(plan, Store(tmp_path / "run"), workers=workers, retry=True)
    assert (retried.computed, retried.stored, retried.complete) == (3, 4, True)
    assert values(Store(tmp_path / "run")) == expected(plan)


def test_what_a_user_can_mend_has_no_traceback(tmp_path):
    (tmp_path / "obstacle").touch()
    plan, _ = failing_plan(tmp_path, user_error=True)
    (failed,) = run(plan, Store(tmp_path / "run")).failed
    assert (failed.error, failed.traceback) == ("this text has no label", "")


@pytest.mark.full
@pytest.mark.parametrize(("deaths", "complete"), [(2, True), (3, False)])
def test_a_cell_may_cost_two_workers_their_life(tmp_path, deaths, complete):
    (tmp_path / "obstacles").mkdir()
    for number in range(deaths):
        (tmp_path / "obstacles" / str(number)).touch()
    plan = ladder(3, 1)
    deadly = plan.add(cell_of("dying", {"number": 1, "obstacles": str(tmp_path / "obstacles")}))
    store = Store(tmp_path / "run")
    outcome = run(plan, store, workers=2)
    assert outcome.complete == complete
    if complete:
        assert values(store) == expected(plan)
    else:
        (failed,) = outcome.failed
        assert failed.name == deadly.name
        assert "the worker died 3 times" in failed.error
        assert outcome.computed == 6


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_a_worker_keeps_what_it_made(tmp_path, workers):
    plan = Plan()
    for number in range(6):
        plan.add(cell_of("counting", {"number": number}))
    store = Store(tmp_path / "run")
    run(plan, store, workers=workers)
    tables = [store.table(name) for name in plan.cells]
    by_worker: dict[int, list[float]] = {}
    for table in tables:
        by_worker.setdefault(table.column("pid")[0].as_py(), []).append(table.column("value")[0].as_py())
    assert len(by_worker) <= workers
    for counts in by_worker.values():
        assert sorted(counts) == [float(count) for count in range(1, len(counts) + 1)]


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_a_cell_may_make_files_that_others_read(tmp_path, workers):
    plan = Plan()
    before = ()
    for number in range(3):  # a chain, as in recursive retraining
        training = plan.add(cell_of("training", {"number": number}, before))
        plan.add(cell_of("reading", {}, (training.name,)))
        before = (training.name,)
    store = Store(tmp_path / "run")
    assert run(plan, store, workers=workers).complete
    assert sorted(store.table(cell.name).column("value")[0].as_py() for cell in plan.of("reading")) == [0.0, 1.0, 2.0]
    assert sorted(path.name for path in (tmp_path / "run" / "files").iterdir()) == sorted(
        cell.name for cell in plan.of("training")
    )


def test_half_made_files_never_appear(tmp_path):
    context = Context(tmp_path)
    cell = Cell("training", {})
    with pytest.raises(FileNotFoundError), context.new_folder(cell) as folder:
        (folder / "nowhere" / "weights").write_text("half")
    assert list((tmp_path / "files").iterdir()) == []
    with pytest.raises(TrothError, match="not on this machine"):
        context.folder(cell.name)
    for content in ("first", "second"):
        with context.new_folder(cell) as folder:
            (folder / "weights").write_text(content)
    assert (context.folder(cell.name) / "weights").read_text() == "second"
    assert len(list((tmp_path / "files").iterdir())) == 1


def test_rows_known_when_planning_are_stored(tmp_path):
    plan = Plan()
    whole = ladder(1, 0)
    store = Store(tmp_path / "first")
    run(whole, store)
    (source,) = whole.cells.values()
    plan.add(source, store.table(source.name))
    plan.add(cell_of("metric", {"number": 1}, (source.name,)))
    other = Store(tmp_path / "second")
    outcome = run(plan, other)
    assert (outcome.computed, outcome.stored) == (1, 1)
    assert values(other) == expected(plan)


def test_parents_may_be_in_the_store_alone(tmp_path):
    store = Store(tmp_path / "run")
    first = ladder(1, 0)
    run(first, store)
    (parent,) = first.cells
    more = Plan()
    child = more.add(cell_of("metric", {"number": 100}, (parent,)))
    assert run(more, store).complete
    assert values(store)[child.name] == [110.0 + row for row in range(5)]  # 0 + 1 + 2 + 3 + 4 = 10
    lost = Plan()
    lost.add(cell_of("metric", {"number": 1}, ("nowhere",)))
    with pytest.raises(TrothError, match="needs cell nowhere, which is neither in the plan nor in the store"):
        run(lost, store)


def test_settings_that_cannot_be(tmp_path):
    store, plan = Store(tmp_path / "run"), ladder(1, 0)
    with pytest.raises(TrothError, match=r"no engine is called 'rai'; did you mean ray\?"):
        run(plan, store, engine="rai")
    with pytest.raises(TrothError, match="workers must be 1 to 10,000, not 0"):
        run(plan, store, workers=0)
    with pytest.raises(TrothError, match="shard 5/4 does not exist"):
        run(plan, store, shard=(5, 4))
    with pytest.raises(TrothError, match="does not say how to compute a metric"):
        run(Plan({"x": Cell("metric", {})}), store)


def test_loading_a_model_is_not_a_cells_time(tmp_path):
    plan = Plan()
    plan.add(cell_of("loading", {"number": 1}))
    store = Store(tmp_path / "run")
    run(plan, store)
    (stored,) = store.cells()
    assert -50 <= stored.seconds < -40


def test_progress_tells_the_time_left(tmp_path):
    told = []
    run(ladder(4, 2, sleep=0.01), Store(tmp_path / "run"), progress=told.append)
    assert told[0].left is None
    assert [progress.done for progress in told] == list(range(12))
    assert {progress.total for progress in told} == {12}
    # Eleven cells are left after the first, each of at least 10 ms.
    assert 0.11 <= told[1].left < 2
    assert told[-1].left < told[1].left


def test_ctrl_c_leaves_a_run_that_can_go_on(tmp_path):
    plan = ladder(4, 2)

    def interrupt_after_three(progress):
        if progress.done == 3 and not progress.stopping:
            signal.raise_signal(signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    outcome = run(plan, Store(tmp_path / "run"), progress=interrupt_after_three)
    assert signal.getsignal(signal.SIGINT) is handler
    # The cell that had been handed out is cheap and was finished.
    assert (outcome.computed, outcome.left, outcome.interrupted, outcome.complete) == (4, 8, True, False)
    again = run(plan, Store(tmp_path / "run"))
    assert (again.computed, again.stored, again.complete) == (8, 4, True)
    assert values(Store(tmp_path / "run")) == expected(plan)


def test_ctrl_c_does_not_wait_for_a_long_cell(tmp_path, monkeypatch):
    monkeypatch.setattr(scheduler, "GRACE", 0.2)
    plan = ladder(1, 0, sleep=600)

    def interrupt(progress):
        if not progress.stopping:
            signal.raise_signal(signal.SIGINT)

    outcome = run(plan, Store(tmp_path / "run"), progress=interrupt)
    assert (outcome.computed, outcome.left, outcome.interrupted) == (0, 1, True)
    assert not list((tmp_path / "run" / "claims").iterdir())


def driver(store, *arguments, **options) -> subprocess.Popen:
    command = [sys.executable, str(ROOT / "tests" / "sweep" / "driver.py"), str(store), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, **options)


@pytest.mark.full
def test_two_processes_share_a_store_and_do_nothing_twice(tmp_path):
    plan = ladder(8, 4, sleep=0.02, journal=f"{tmp_path / 'run'}.journal")
    both = [driver(tmp_path / "run", "local", 1, 8, 4) for _ in range(2)]
    told = [json.loads(process.communicate(timeout=300)[0]) for process in both]
    computed, found, complete = zip(*told, strict=True)
    assert sum(computed) == 40
    assert [one + other for one, other in zip(computed, found, strict=True)] == [40, 40]
    assert complete == (True, True)
    done = [json.loads(line)[0] for line in Path(f"{tmp_path / 'run'}.journal").read_text().splitlines()]
    assert sorted(done) == sorted(plan.cells)
    assert values(Store(tmp_path / "run")) == expected(plan)


@pytest.mark.full
def test_a_shard_leaves_what_others_are_at(tmp_path):
    plan = ladder(4, 0)
    store, other = Store(tmp_path / "run"), Store(tmp_path / "run")
    taken = next(iter(plan.cells))
    other.claims.take(taken)
    outcome = run(plan, store, shard=(1, 2))
    assert (outcome.computed, outcome.left, outcome.interrupted) == (3, 1, False)
    other.claims.drop(taken)
    assert run(plan, store, shard=(2, 2)).complete


def test_a_damaged_file_is_named_and_computed_again(tmp_path):
    plan = ladder(4, 3)
    run(plan, Store(tmp_path / "run"))
    victims = sorted((tmp_path / "run" / "segments").iterdir())
    assert len(victims) == 2
    for victim in victims:
        data = bytearray(victim.read_bytes())
        data[len(data) // 2] ^= 1
        victim.write_bytes(bytes(data))
    outcome = run(plan, Store(tmp_path / "run"))
    assert sorted(outcome.notes)[0].startswith(f"{victims[0]} is damaged")
    assert len(outcome.notes) == 2
    assert (outcome.computed, outcome.complete) == (16, True)
    assert values(Store(tmp_path / "run")) == expected(plan)


FULL_DISK = """
import random, resource, sys
from tests.sweep.works import cell_of, ladder
from troth.core.errors import TrothError
from troth.store.cells import Cell
from troth.sweep.run import run
from troth.store.store import Store
plan = ladder(3, 1)
plan.add(cell_of("metric", {"number": 1, "model": "last", "text": random.Random(0).randbytes(40_000).hex()}))
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
try:
    run(plan, Store(sys.argv[1]))
except TrothError as error:
    print(error)
"""


@pytest.mark.full
def test_a_full_disk_stops_the_run_with_one_line(tmp_path):
    # The operating system refuses files beyond a size, as a full disk or a quota does.
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "run")]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}, capture_output=True, text=True
    )
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    assert "the disk is full (File too large); finished cells are safe" in line
    plan = ladder(3, 1)
    store = Store(tmp_path / "run")
    assert values(store) == expected(plan)
    assert not list((tmp_path / "run" / "claims").iterdir())
    assert run(plan, store).stored == 6


def test_a_disk_that_fills_up_in_a_worker_stops_the_run(tmp_path):
    plan = ladder(2, 0)
    plan.add(cell_of("filling", {"number": 1}))
    with pytest.raises(TrothError, match=r"the disk is full .*No space left.*run the same command again"):
        run(plan, Store(tmp_path / "run"))
    assert Store(tmp_path / "run").failed() == []


def test_a_complete_outcome():
    assert Outcome(computed=3).complete
    assert not Outcome(left=1).complete
