import errno
import json
import os
import subprocess
import sys
import threading
import time

import pytest

from troth.core.files import CannotWriteError
from troth.store import claims as module
from troth.store.claims import Claims


def test_a_claim_is_exclusive_until_it_is_given_back(tmp_path):
    ours, theirs = Claims(tmp_path), Claims(tmp_path)
    assert ours.take("cell")
    assert not theirs.take("cell")
    assert not ours.take("cell")
    assert theirs.take("another")
    ours.drop("cell")
    assert theirs.take("cell")
    theirs.close()
    assert ours.take("cell")
    assert ours.take("another")


def test_a_killed_process_loses_its_claims_at_once(tmp_path):
    code = (
        f"from pathlib import Path; from troth.store.claims import Claims; c = Claims(Path({str(tmp_path)!r})); "
        "assert c.take('cell'); print('taken', flush=True); import time; time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "taken\n"
    ours = Claims(tmp_path)
    assert not ours.take("cell")
    process.kill()
    # Not yet waited for: a zombie is dead, too.
    while not ours.take("cell"):
        time.sleep(0.01)
    process.wait()
    assert json.loads((tmp_path / "cell").read_text())["pid"] == str(os.getpid())


def foreign(path, silent):
    path.write_text(json.dumps({"host": "elsewhere", "pid": "1", "started": "1", "token": "t"}))
    os.utime(path, (time.time() - silent,) * 2)


def test_another_machines_claim_lives_as_long_as_its_heart_beats(tmp_path):
    ours = Claims(tmp_path)
    foreign(tmp_path / "alive", silent=module.DEAD - 10)
    foreign(tmp_path / "dead", silent=module.DEAD + 10)
    assert not ours.take("alive")
    assert ours.take("dead")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alive", "dead"]


def test_a_claim_whose_owner_was_killed_while_signing_does_not_block(tmp_path):
    ours = Claims(tmp_path)
    (tmp_path / "cell").write_text("")
    assert not ours.take("cell")
    os.utime(tmp_path / "cell", (time.time() - 10,) * 2)
    assert ours.take("cell")


def test_a_claim_abandoned_in_this_very_process_is_dead(tmp_path):
    careless = Claims(tmp_path)
    careless.take("cell")
    owner = (tmp_path / "cell").read_text()
    careless.close()
    (tmp_path / "cell").write_text(owner)
    assert Claims(tmp_path).take("cell")


def test_the_heart_beats(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BEAT", 0.02)
    ours = Claims(tmp_path)
    ours.take("cell")
    long_ago = time.time() - 1000
    os.utime(tmp_path / "cell", (long_ago, long_ago))
    until = time.monotonic() + 120
    while (tmp_path / "cell").stat().st_mtime < long_ago + 900 and time.monotonic() < until:
        time.sleep(0.01)
    assert (tmp_path / "cell").stat().st_mtime > long_ago + 900
    ours.close()


def test_no_thread_is_left_once_all_claims_are_given_back(tmp_path):
    def beating():
        return [thread for thread in threading.enumerate() if thread.name == "troth-heartbeat"]

    before = beating()
    for turn in range(5):
        ours = Claims(tmp_path)
        with ours.lock("run.json"):
            assert ours.take(f"cell {turn}")
        (ours_alone,) = set(beating()) - set(before)  # a claim is still held
        ours.drop(f"cell {turn}")
        ours_alone.join(30)
        assert not ours_alone.is_alive()
    assert set(beating()) <= set(before)


def test_of_many_that_find_a_dead_claim_one_takes_it(tmp_path):
    several = [Claims(tmp_path) for _ in range(8)]
    for turn in range(20):
        foreign(tmp_path / f"cell{turn}", silent=1000)
        barrier = threading.Barrier(len(several))
        taken = []

        def compete(claims, name=f"cell{turn}", barrier=barrier, taken=taken):
            barrier.wait()
            if claims.take(name):
                taken.append(claims)

        threads = [threading.Thread(target=compete, args=(claims,)) for claims in several]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(taken) == 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_lock_waits_and_then_goes_on(tmp_path):
    ours, theirs = Claims(tmp_path), Claims(tmp_path)
    ours.take("lock")
    begun = time.monotonic()
    with theirs.lock("lock", patience=0.2):
        assert time.monotonic() - begun >= 0.2
    assert not theirs.take("lock")  # it was never theirs to give back


def test_a_full_disk_is_named_where_a_dead_claim_is_taken_away(tmp_path, monkeypatch):
    (tmp_path / "cell").write_bytes(b"{")  # killed while signing
    real = os.open

    def full(path, flags, *others):
        if str(path).endswith(".removal"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, flags, *others)

    monkeypatch.setattr(os, "open", full)
    claims = Claims(tmp_path)
    with pytest.raises(CannotWriteError, match="No space left"):
        claims.take("cell")
    claims.close()
