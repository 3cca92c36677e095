"""kill -9 in the middle of Recursive ROAR: the table is that of a run never stopped, and no training is done twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRAININGS = 2 * (2 + 3 + 2 * 3)  # of two seeds: the ends, random, and three steps of two measures


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "sweep" / "roar_driver.py"), str(folder)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def trained(folder: Path) -> dict[str, int]:
    """The finished trainings, and when each was written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in folder.glob("files/[!.]*/result.json")}


@pytest.mark.parametrize("kills", [1, pytest.param(4, marks=pytest.mark.full)])
def test_killed_and_resumed(tmp_path, kills):
    undisturbed, killed = tmp_path / "whole" / "run", tmp_path / "killed" / "run"
    for folder in (undisturbed, killed):
        folder.parent.mkdir()
    right, _ = start(undisturbed).communicate(timeout=300)
    assert len(trained(undisturbed)) == TRAININGS
    chance = random.Random(kills)
    for _ in range(kills):
        before = trained(killed)
        goal = len(before) + chance.randint(2, TRAININGS // (kills + 1))
        process = start(killed)
        while process.poll() is None and len(trained(killed)) < goal:
            time.sleep(0.01)
        time.sleep(chance.random() * 0.5)
        process.send_signal(signal.SIGKILL)
        process.wait()
        after = trained(killed)
        assert before.items() <= after.items()
    assert 0 < len(after) < TRAININGS
    found, _ = start(killed).communicate(timeout=300)
    assert after.items() <= trained(killed).items()
    assert trained(killed).keys() == trained(undisturbed).keys()
    assert json.loads(found) == json.loads(right)
