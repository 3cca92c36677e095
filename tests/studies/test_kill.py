"""kill -9 in the middle of fresh and study: run again they come to the same, and nothing finished is done twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from troth.store.store import Store

ROOT = Path(__file__).parents[2]
BASE = "scratch(layers=1, hidden=8, heads=2, dropout=0.0)"
COMMANDS = {
    "study": ["study", "saloss(epochs=1, batch_size=16, examples=6)", "--only", "performance", "--seeds", "2"],
    "fresh": ["fresh", "--epochs", "1", "--batch-size", "16", "--seeds", "1"],
}


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "films"
    folder.mkdir()
    for split, count in (("train", 40), ("validation", 10), ("test", 12)):
        rows = [
            {"id": f"{split}-{n}", "text": f"the film {n} is {('awful', 'great')[n % 2]} in {split}", "label": n % 2}
            for n in range(count)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def start(command, data, out):
    arguments = [*COMMANDS[command], "--data", data, "--base", BASE, "--workers", 1, "--out", out, "--json"]
    return subprocess.Popen(
        [sys.executable, "-m", "troth", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finished(out):
    """The cells that are stored, and when each was done."""
    return {cell.name: cell.finished for cell in Store(out).cells()}


@pytest.mark.parametrize(
    ("command", "kills"),
    [("study", 1), pytest.param("study", 4, marks=pytest.mark.full), pytest.param("fresh", 4, marks=pytest.mark.full)],
)
def test_killed_and_resumed(data, tmp_path, command, kills):
    right, _ = start(command, data, tmp_path / "whole").communicate(timeout=300)
    everything, chance = len(finished(tmp_path / "whole")), random.Random(kills)
    killed = tmp_path / "killed"
    for number in range(kills):
        before = finished(killed)
        process = start(command, data, killed)
        goal = max(len(before) + 1, everything * (number + 1) // (kills + 1))
        while process.poll() is None and len(finished(killed)) < min(goal, everything):
            time.sleep(0.01)
        time.sleep(chance.random() * 0.1)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    after = finished(killed)
    assert after
    found, _ = start(command, data, killed).communicate(timeout=300)
    assert after.items() <= finished(killed).items()
    told, untold = json.loads(found), json.loads(right)
    for said in (told, untold):
        said.pop("folder", None)
    assert told == untold
