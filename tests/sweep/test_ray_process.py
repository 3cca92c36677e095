"""Ray beside the run: its death is one line, and none of its processes outlives the run, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.sweep.works import expected, ladder

from kills import begun, command, finish
from troth.store.store import Store
from troth.sweep.ray_pool import end_session
from troth.sweep.run import run

PLAN = """models = ["first", "second"]
data = ["data.jsonl"]
explainers = ["random", "lime(samples=400)", "leave_one_out"]
metrics = ["comprehensiveness"]
seeds = [0, 1, 2, 3]
out = "results"
"""


def processes() -> dict[int, tuple[int, int, str]]:
    """Parent, session and command line of all that run."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent, _, session = stat.read_text().rpartition(")")[2].split()[:4]
            words = stat.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if state not in "ZX":
            found[int(stat.parent.name)] = (int(parent), int(session), words)
    return found


def session_of(pid: int) -> set[int]:
    return {member for member, (_, session, _) in processes().items() if session == pid}


def ray_of(run: int) -> int | None:
    """The process of a run that talks to Ray."""
    theirs = (
        pid for pid, (parent, _, words) in processes().items() if parent == run and "ray_pool import serve" in words
    )
    return next(theirs, None)


def started_sweep(folder):
    """A sweep on a Ray of its own that has begun to store results, and the session of all that Ray started."""
    (folder / "slow.toml").write_text(PLAN)
    process = begun(command, ["sweep", "slow.toml", "--engine", "ray", "--workers", "1"], folder)
    until = time.monotonic() + 120
    while len(list(folder.glob("results/*/*.parquet"))) < 4 and process.exitcode is None:
        assert time.monotonic() < until
        time.sleep(0.05)
    session = ray_of(process.pid)
    assert session is not None
    assert len(session_of(session)) > 4
    return process, session


def raylet_of(session: int) -> int:
    found = [pid for pid in session_of(session) if "/raylet/raylet " in processes()[pid][2]]
    (raylet,) = found
    return raylet


@pytest.mark.full
def test_a_killed_raylet_is_one_line_and_takes_all_of_ray_along(in_workshop):
    pytest.importorskip("ray")
    process, session = started_sweep(in_workshop)
    os.kill(raylet_of(session), signal.SIGKILL)
    assert finish(process) == 2
    assert session_of(session) == set()
    *progress, line = (in_workshop / "err").read_text().splitlines()
    assert all(" cells (pieces of work)" in each for each in progress)  # a line every ten seconds
    assert line.startswith("troth: Ray ended in the middle of the run (its raylet was killed")
    assert line.endswith("finished cells are safe: run the same command again")
    assert not list((in_workshop / "results" / "claims").iterdir())


@pytest.mark.full
@pytest.mark.parametrize("signals", [1, 2, 3])
def test_nothing_of_ray_outlives_ctrl_c(in_workshop, signals):
    process, session = started_sweep(in_workshop)
    for _ in range(signals):
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.3)
    assert finish(process) == 130
    assert session_of(session) == set()


@pytest.mark.full
def test_nothing_of_ray_outlives_a_killed_run_for_long(in_workshop):
    process, session = started_sweep(in_workshop)
    os.kill(process.pid, signal.SIGKILL)
    until = time.monotonic() + 30
    while session_of(session):
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.full
def test_nothing_of_ray_outlives_a_run_or_an_error(tmp_path, monkeypatch):
    plan = ladder(3, 2)
    store = Store(tmp_path / "run")
    assert run(plan, store, engine="ray", workers=2).complete
    assert {name: store.table(name).column("value").to_pylist() for name in plan.cells} == expected(plan)
    monkeypatch.setattr(Store, "write", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(ladder(1, 0), Store(tmp_path / "other"), engine="ray", workers=1)
    assert ray_of(os.getpid()) is None
    assert not [words for _, _, words in processes().values() if f"_{os.getpid()}/" in words]


def test_a_session_ends_with_those_whose_parents_are_gone():
    # The middle one ends at once, so that the last belongs to nobody.
    orphan = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    leader = subprocess.Popen(
        [sys.executable, "-c", f"import subprocess, sys, time; subprocess.run([sys.executable, '-c', {orphan!r}]); "
         "print('ready', flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert leader.stdout.readline() == b"ready\n"
    assert len(session_of(leader.pid)) == 2
    end_session(leader.pid)
    assert leader.wait() == -signal.SIGKILL
    assert session_of(leader.pid) == set()
    leader.stdout.close()
