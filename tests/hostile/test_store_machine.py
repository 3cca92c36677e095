"""A store under random writes, deaths between any two system calls, damage and resumption.

Nothing finished is lost or counted twice, and nothing is ever read back that was not written.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from troth.core import files
from troth.core.files import CannotWriteError
from troth.store.cells import FORMAT_VERSION, Cell
from troth.store.store import Store

FILLS = ("open", "open file", "write", "fsync", "mkdir", "replace")  # what a full disk refuses
CALLS = ("open", "write", "fsync", "replace", "unlink", "rename", "mkdir", "close")


def cell(number: int) -> Cell:
    return Cell("metric", {"metric": "sufficiency", "number": number})


def rows(number: int) -> pa.Table:
    return pa.table({"example_id": ["a", "b"], "value": [float(number), number / 2]})


class Ended(BaseException):
    """The process is killed here."""


def interrupted(after: int, action, error: BaseException | None = None) -> bool:
    """Does something and ends it at the n-th system call that changes files, as kill -9 or a full disk would."""
    left = [after]
    real = {name: getattr(os, name) for name in CALLS}

    def patched(name):
        def call(*arguments, **options):
            if name == "open" and not arguments[1] & os.O_CREAT:
                return real[name](*arguments, **options)
            left[0] -= 1
            if left[0] < 0 and (error is None or name in FILLS):
                raise Ended if error is None else error
            return real[name](*arguments, **options)

        return call

    child = os.fork()
    if child == 0:  # a process of its own: what it held in memory is gone with it
        code = 0
        try:
            for name in CALLS:
                setattr(os, name, patched(name))
            real["open file"] = open
            files.open = patched("open file")
            action()
        except Ended:
            os._exit(9)
        except CannotWriteError:
            code = 3
        except BaseException:
            import traceback

            real["write"](2, traceback.format_exc().encode())
            code = 1
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 3, 9)
    return code == 0


def is_of_another(about: bytes) -> bool:
    """Whether a run.json says that an earlier or a later troth wrote it."""
    try:
        version = json.loads(about).get("format")
    except (ValueError, AttributeError):
        return False
    return isinstance(version, int) and version != FORMAT_VERSION


class StoreMachine(RuleBasedStateMachine):
    numbers = Bundle("numbers")

    @initialize()
    def begin(self):
        self.place = Path(tempfile.mkdtemp(prefix="machine-"))
        self.folder = self.place / "run"
        self.sure: set[int] = set()  # finished
        self.maybe: set[int] = set()  # the process ended while it wrote

    def teardown(self):
        if hasattr(self, "place"):
            shutil.rmtree(self.place, ignore_errors=True)

    @rule(target=numbers, number=st.integers(0, 9))
    def write(self, number):
        Store(self.folder).write(cell(number), rows(number))
        self.sure.add(number)
        return number

    @rule(number=st.integers(0, 9), after=st.integers(0, 8))
    def killed_while_writing(self, number, after):
        done = interrupted(after, lambda: Store(self.folder).write(cell(number), rows(number)))
        (self.sure if done else self.maybe).add(number)

    @rule(number=st.integers(0, 9))
    def fail(self, number):
        Store(self.folder).fail(cell(number), "it broke")

    @rule(after=st.integers(0, 12))
    def killed_while_compacting(self, after):
        interrupted(after, lambda: Store(self.folder).compact())

    @rule(after=st.integers(0, 12))
    def compacting_on_a_full_disk(self, after):
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        interrupted(after, lambda: Store(self.folder).compact(), full)

    @rule(after=st.integers(0, 6))
    def killed_while_noting(self, after):
        interrupted(after, lambda: Store(self.folder).note(planned=3))

    @rule()
    def compact(self):
        Store(self.folder).compact()

    # What is drawn never depends on the files: how many there are, and how long, may depend on time.
    @rule(which=st.integers(0, 1 << 10), at=st.integers(0, 1 << 20), cut=st.booleans(), bit=st.integers(0, 7))
    def damage(self, which, at, cut, bit):
        """One byte of one file, or its end."""
        found = (path for path in self.folder.rglob("*") if path.is_file() and path.parent.name != "damaged")
        files = sorted(path for path in found if not path.name.startswith("."))
        if not any((self.folder / name).is_dir() for name in ("cells", "segments")):
            files = [path for path in files if path.name != "run.json"]  # without results such a folder is refused
        if not files:
            return
        path = files[which % len(files)]
        content = bytearray(path.read_bytes())
        if not content:
            return
        at %= len(content)
        if cut:
            del content[at:]
        else:
            content[at] ^= 1 << bit
        if path.name == "run.json" and is_of_another(content):
            return  # nobody can tell it from another troth's, which is refused or not continued
        path.write_bytes(bytes(content))
        self.maybe |= self.sure
        self.sure = set()

    @rule()
    def resume(self):
        store = Store(self.folder)
        store.repair()
        store.check()
        store.note(planned=1)
        assert store.about()["planned"] == 1
        assert store.repair() + store.check() == []
        self.sure = {number for number in self.sure | self.maybe if store.has(cell(number).name)}
        self.maybe = set()

    @invariant()
    def what_is_finished_is_there_and_right(self):
        if not hasattr(self, "folder"):
            return
        store = Store(self.folder)
        for number in self.sure:
            assert store.has(cell(number).name)
            assert store.table(cell(number).name).equals(rows(number))
        stored = [one.name for one in store.cells() if not one.error]
        assert len(stored) == len(set(stored))


TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=5, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.full
def test_the_machine_for_long():
    from hypothesis.stateful import run_state_machine_as_test

    patient = settings(max_examples=400, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(StoreMachine, settings=patient)


@pytest.mark.full
@pytest.mark.parametrize("point", range(50))
def test_a_disk_that_fills_at_any_point_of_a_run(tmp_path, point):
    from tests.sweep.works import expected, ladder

    from troth.sweep.run import run

    plan = ladder(3, 2)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert not interrupted(point, lambda: run(plan, Store(tmp_path / "run"), workers=1, compact_every=4), full)
    assert run(plan, Store(tmp_path / "run"), workers=1).complete
    store = Store(tmp_path / "run")
    assert {name: store.table(name).column("value").to_pylist() for name in plan.cells} == expected(plan)
    assert store.check() == []
