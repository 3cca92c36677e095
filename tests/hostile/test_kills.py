"""bench and sweep killed twenty times at random moments, here and on Ray, end with the table of a run left alone."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from tests.hostile.forks import ROOT

from troth.store.query import query
from troth.store.store import Store

SCORES = "select explainer, metric, seed, example_id, value from scores order by all"
EXPLAINERS = ("random", "gradient", "leave_one_out", "lime(samples=20)", "integrated_gradients(steps=3)")
METRICS = ("comprehensiveness", "sparsity", "sufficiency")
BENCH = ["bench", "-m", "model", "-d", "data.jsonl", "--seed", "0", "--seed", "1"]
BENCH += [part for name in EXPLAINERS for part in ("-e", name)]
BENCH += [part for name in METRICS for part in ("--metrics", name)]
PLAN = f"""models = ["model"]
data = ["data.jsonl"]
explainers = {list(EXPLAINERS)}
metrics = {list(METRICS)}
seeds = [0, 1]
"""


def started(arguments, folder):
    return subprocess.Popen(
        [sys.executable, "-m", "troth", *arguments], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}, start_new_session=True,
    )  # fmt: skip


def scores(folder):
    store = Store(folder)
    assert store.repair() + store.check() == []
    return query(store, SCORES).to_pylist()


@pytest.mark.full
@pytest.mark.parametrize("engine", ["local", "ray"])
@pytest.mark.parametrize("command", ["bench", "sweep"])
def test_twenty_kills(tmp_path, models, room, command, engine):
    if engine == "ray":
        pytest.importorskip("ray")
    (tmp_path / "model").symlink_to(models / "model")
    (tmp_path / "data.jsonl").write_bytes((room / "data.jsonl").read_bytes())
    (tmp_path / "plan.toml").write_text(PLAN)
    arguments = BENCH if command == "bench" else ["sweep", "plan.toml"]
    arguments = [*arguments, "--workers", "2"]
    begun = time.monotonic()
    assert started([*arguments, "--out", "alone"], tmp_path).wait(timeout=300) == 0
    whole = time.monotonic() - begun
    chance = random.Random(0)
    for _ in range(20):
        process = started([*arguments, "--engine", engine, "--out", "killed"], tmp_path)
        time.sleep(chance.uniform(0.3, 1.0) * whole)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert started([*arguments, "--engine", engine, "--out", "killed"], tmp_path).wait(timeout=600) == 0
    assert scores(tmp_path / "killed") == scores(tmp_path / "alone")
