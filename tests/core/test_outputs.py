"""Where output goes: onto regular files and new ones, through links, into pipes; never in place of a device."""

import os
import socket
import stat
import threading

import pytest

import fakes
from troth.core import files
from troth.core.errors import TrothError
from troth.core.sheet import plain_sheet
from troth.models.black_box import BlackBox
from troth.report import export, figures
from troth.sweep import bench as benching


def is_device(path):
    return stat.S_ISCHR(os.lstat(path).st_mode)


def device(path):
    """A device node like the null device; only root can make one."""
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root can make a device node")
    return path


WRITERS = {
    "a page": lambda path: export.write(path, b"<html>"),
    "csv": lambda path: export.to(path, "a,b\n"),
    "a figure": lambda path: figures.plot([plain_sheet("t", ("a",), [(1,)], draw=lambda figure: None)], path),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_device_is_written_to_and_stays(tmp_path, writer):
    place = device(tmp_path / "null.svg")
    WRITERS[writer](place)
    assert is_device(place)
    assert [path.name for path in tmp_path.iterdir()] == ["null.svg"]


def test_a_device_in_a_folder_of_ours_is_refused_and_stays(tmp_path):
    place = device(tmp_path / "run.json")
    for write in (lambda: files.write_json(place, {}), lambda: export.write(place, b"x", own=True)):
        with pytest.raises(TrothError, match="is a device"):
            write()
        assert is_device(place)


@pytest.mark.parametrize("writer", WRITERS)
def test_the_target_of_a_link_is_written_and_the_link_stays(tmp_path, writer):
    for name in ("target.svg", "new.svg"):  # one that is there, one that is not yet
        link = tmp_path / f"link-{name}"
        link.symlink_to(tmp_path / "deep" / name)
        (tmp_path / "deep").mkdir(exist_ok=True)
        if name == "target.svg":
            (tmp_path / "deep" / name).write_text("old")
        WRITERS[writer](link)
        assert link.is_symlink()
        assert (tmp_path / "deep" / name).read_bytes() not in (b"old", b"")


@pytest.mark.parametrize("writer", WRITERS)
def test_a_pipe_is_written_to_and_stays(tmp_path, writer):
    pipe = tmp_path / "pipe.svg"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    WRITERS[writer](pipe)
    reader.join(20)
    assert read[0]
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


def test_what_a_process_has_open_is_appended_to_not_replaced(tmp_path):
    with open(tmp_path / "log", "w+b") as log:
        log.write(b"first ")
        log.flush()
        export.write(files.Path(f"/dev/fd/{log.fileno()}"), b"second")
        assert (tmp_path / "log").read_bytes() == b"first second"
        assert os.path.samestat(os.fstat(log.fileno()), (tmp_path / "log").stat())


def test_a_socket_and_a_folder_are_refused(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX) as place:
        monkeypatch.chdir(tmp_path)
        place.bind("socket")
        with pytest.raises(TrothError, match="is a socket"):
            export.write(tmp_path / "socket", b"x")
    with pytest.raises(TrothError, match="cannot write"):
        export.write(tmp_path, b"x")


def test_a_run_of_somebody_elses_cannot_make_its_report_overwrite_a_file(troth, tmp_path):
    model = BlackBox(fakes.planted(), labels=["no", "yes"])
    run = benching.bench(model, fakes.CORPUS[:4], ["random"], ["sparsity"], tmp_path / "run", progress=False).folder
    (tmp_path / "mine").write_text("mine")
    (run / "report.html").symlink_to(tmp_path / "mine")
    code, _, said = troth("report", run)
    assert code == 2
    assert "outside of its folder; remove the link" in said
    assert (tmp_path / "mine").read_text() == "mine"
