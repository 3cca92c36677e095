"""One writer per output folder: the second process is told who the first is; a dead one holds nothing."""

import json
import os
import signal
import time

import pytest

import fakes
from troth import studies
from troth.core import locks
from troth.core.errors import TrothError
from troth.models import load_model
from troth.studies import _fresh
from troth.studies.roar import Roar
from troth.training.train import train
from troth.verbs.fit import fit
from troth.verbs.fresh import fresh
from troth.verbs.tune import search

DATA = [{"text": text, "label": number % 2} for number, text in enumerate(fakes.CORPUS * 3)]
WRITERS = {
    "train": lambda out: train("plain", DATA, "scratch(layers=1, hidden=8)", out, epochs=1, cpu=True, progress=False),
    "train --lambda search": lambda out: search("salience", DATA, "bilstm_attention", out, epochs=1, progress=False),
    "fit": lambda out: fit("embedded", "reviews", out, progress=False),
    "fresh (Python)": lambda out: fresh(load_model("embedded"), {"train": [], "validation": []}, "scratch", out),
    "fresh": lambda out: _fresh.compare("reviews", "scratch", out),
    "study": lambda out: list(studies.carry_out(Roar(), studies.Setting(out), ["synthetic"])),
}


def held_by_a_child(folder):
    """A process that holds the lock until it is killed. -> its id"""
    ready, done = os.pipe()
    child = os.fork()
    if child == 0:
        with locks.held(folder):
            os.write(done, b"x")
            time.sleep(600)
        os._exit(0)
    os.read(ready, 1)
    return child


def stop(child):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.parametrize("command", WRITERS)
def test_the_second_writer_is_told_who_the_first_is(tmp_path, command):
    out = tmp_path / "out"
    child = held_by_a_child(out)
    try:
        with pytest.raises(TrothError, match=rf"{out} is being written by process {child} on \S+, since 2\d{{3}}-"):
            WRITERS[command](out)
        assert [path.name for path in out.iterdir() if not path.name.endswith(".claim")] == [locks.NAME]
    finally:
        stop(child)


def test_a_dead_process_holds_nothing(tmp_path):
    stop(held_by_a_child(tmp_path))
    assert (tmp_path / locks.NAME).exists()
    with locks.held(tmp_path):
        assert json.loads((tmp_path / locks.NAME).read_text())["pid"] == os.getpid()
        with pytest.raises(TrothError, match=f"by process {os.getpid()} "), locks.held(tmp_path):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_training_leaves_no_lock_and_takes_over_a_stale_one(tmp_path):
    (tmp_path / locks.NAME).write_text("left behind")
    trained = WRITERS["train"](tmp_path)
    assert not (tmp_path / locks.NAME).exists()
    assert WRITERS["train"](tmp_path).report == trained.report


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / locks.NAME).symlink_to(tmp_path / "mine")
    with pytest.raises(TrothError), locks.held(tmp_path / "out"):
        pass
    assert (tmp_path / "mine").read_text() == "mine"


def test_the_other_processes_of_one_training_do_not_lock(tmp_path, monkeypatch):
    with locks.held(tmp_path):
        monkeypatch.setenv("RANK", "1")
        locks.require_free(tmp_path)
        with locks.held(tmp_path):
            pass
        monkeypatch.setenv("RANK", "0")
