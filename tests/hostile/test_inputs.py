"""Every input is bounded: endless, huge and nested ones are refused with one line, in little time and memory."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import threading
import time

import pytest
from tests.hostile import inputs
from tests.hostile.inputs_table import CALLS, COMMANDS, DATA, FLOATS, INTEGERS, PLANS, RECORDS, SOURCES, SQL
from tests.hostile.table import GOOD
from tests.hostile.test_bad_inputs import COMMANDS as COMMANDS_OF_TROTH
from tests.hostile.test_bad_inputs import options, refusal

from troth.core import reading
from troth.core.errors import TrothError
from troth.data import load_data
from troth.store.query import query
from troth.store.store import Store
from troth.sweep.plan_file import PlanFile

SECONDS, MEGABYTES = 10, 2_000


@pytest.fixture(scope="session")
def bad(tmp_path_factory, models):
    folder = tmp_path_factory.mktemp("bad")
    inputs.fill(folder, models / "model")
    return folder


@pytest.fixture(scope="session")
def place(tmp_path_factory, room, bad):
    """The usual folder, and the bad inputs in it."""
    folder = tmp_path_factory.mktemp("place") / "room"
    shutil.copytree(room, folder, symlinks=True)
    (folder / "bad").symlink_to(bad)
    (folder / "empty.csv").write_text("text,label\n" + ",0\n,1\n" * 4)
    return folder


@pytest.fixture
def refused(troth, place):
    """Calls a command that must refuse its input; gives its line."""

    def call(*arguments, **settings):
        said = troth(*arguments, room=place, **settings)
        assert said.seconds < SECONDS
        assert said.megabytes < MEGABYTES
        return refusal(said)

    return call


@pytest.mark.parametrize(("name", "line"), DATA)
def test_data(refused, name, line):
    assert line in refused("explain", "--data", f"bad/{name}", "-m", "model", "-e", "gradient")


@pytest.mark.parametrize(("arguments", "line"), COMMANDS)
def test_other_files(refused, arguments, line):
    assert line in refused(*arguments)


@pytest.mark.parametrize(("sql", "given", "line"), SQL)
def test_sql(refused, sql, given, line):
    seconds = () if "--seconds" in given else ("--seconds", "1" if "stopped after 1 " in line else "50")
    assert line in refused("query", "run", sql, *seconds, *given)


@pytest.mark.parametrize(("name", "line"), RECORDS)
def test_records(troth, place, name, line):
    said = troth("verify", f"bad/{name}", room=place)
    assert (said.code, said.err, said.written) == (1, "", [])
    assert line in said.out
    assert said.seconds < SECONDS
    assert said.megabytes < MEGABYTES


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        (command, option.opts[0], value)
        for command, option, kind in options()
        for value in (INTEGERS if "int" in kind else FLOATS if "float" in kind else [])
    ],
)
def test_numbers_out_of_range(monkeypatch, place, command, option, value):
    """Refused while the command line is read: nothing has been called."""
    monkeypatch.chdir(place)
    monkeypatch.setattr(COMMANDS_OF_TROTH[command], "callback", lambda **given: pytest.fail("it was called"))
    with pytest.raises(TrothError, match=f"^{option} must be "):
        COMMANDS_OF_TROTH[command].main([*GOOD[command], option, value], standalone_mode=False)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"stdin_from": "/dev/zero"}, "standard input has more than 64 MB"),
        ({"stdin_from": "bad/long.csv"}, "standard input has more than 64 MB"),
        ({"stdin_from": "bad/latin.csv"}, "standard input is not UTF-8"),
        ({"stdin": ""}, "no text given"),
    ],
)
def test_standard_input(refused, settings, line):
    assert line in refused("explain", "-m", "model", "-e", "gradient", **settings)


@pytest.mark.parametrize(("text", "line"), PLANS)
def test_plans(tmp_path, text, line):
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(TrothError) as caught:
        PlanFile.read(path)
    assert line in str(caught.value)
    assert len(str(caught.value)) < 300 + len(str(path))
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize(("given", "line"), [*(({"source": source}, line) for source, line in SOURCES), *CALLS])
def test_calls_of_load_data(place, given, line):
    with pytest.raises(TrothError) as caught:
        load_data(**{"source": str(place / "data.jsonl"), **given})
    assert line in str(caught.value)


def test_the_limit_can_be_raised(bad, monkeypatch):
    with pytest.raises(TrothError, match="at most 64 MB are read"):
        reading.content(bad / "record.json")
    monkeypatch.setenv(reading.VARIABLE, "100MB")
    assert len(reading.content(bad / "record.json")) == 80 << 20
    monkeypatch.setenv(reading.VARIABLE, "1KB")
    with pytest.raises(TrothError, match="at most 1 KB are read"):
        reading.content(bad / "digits.json")
    monkeypatch.setenv(reading.VARIABLE, "much")
    with pytest.raises(TrothError, match="TROTH_MAX_FILE must be a size such as 500MB or 8GB, not 'much'"):
        reading.content(bad / "digits.json")


def test_a_file_that_grows_is_counted_as_it_is_read(tmp_path):
    path = tmp_path / "growing.jsonl"
    path.write_bytes(b"a\n")
    with reading.opened(path, 1 << 10) as stream:
        path.write_bytes(b"b" * 5_000)
        with pytest.raises(TrothError, match="at most 1 KB are read"):
            stream.read()


def test_a_query_stops_at_ctrl_c(place):
    """The process that runs the SQL ends, too."""
    main, processes = threading.get_ident(), []

    def interrupt():
        while not processes:
            processes.extend(multiprocessing.active_children())
            time.sleep(0.01)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        query(Store(place / "run"), SQL[0][0])
    assert [process.is_alive() for process in processes] == [False]
