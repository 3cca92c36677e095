"""What is written aside is whole or not there; what a killed process left is replaced, not piled up."""

import errno
import os
from contextlib import suppress

import pytest

from troth.core import files
from troth.core.files import CannotWriteError, write_aside, write_json, writing_aside, writing_into


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_file_appears_when_it_is_whole(tmp_path):
    with writing_aside(tmp_path / "deep" / "a.txt") as aside:
        aside.write_text("new")
        assert not (tmp_path / "deep" / "a.txt").exists()
    assert (tmp_path / "deep" / "a.txt").read_text() == "new"
    assert names(tmp_path) == ["deep", "deep/a.txt"]


def test_a_folder_takes_the_place_of_an_earlier_one(tmp_path):
    for text in ("one", "two"):
        with writing_aside(tmp_path / "model") as aside:
            (aside / "inner").mkdir(parents=True)
            (aside / "inner" / text).write_text(text)
    assert names(tmp_path) == ["model", "model/inner", "model/inner/two"]


def test_what_fails_leaves_what_was_there(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old").touch()
    with suppress(ZeroDivisionError), writing_aside(tmp_path / "a") as aside:
        aside.mkdir()
        assert 1 / 0
    with suppress(ZeroDivisionError), writing_into(tmp_path / "a") as aside:
        (aside / "old").write_text("half")
        assert 1 / 0
    assert names(tmp_path) == ["a", "a/old"]
    assert (tmp_path / "a" / "old").read_text() == ""


def test_the_sole_writer_replaces_what_it_left_when_it_was_killed(tmp_path):
    (tmp_path / ".a.json.partial").write_text("half")
    write_json(tmp_path / "a.json", {"name": "émile"})
    assert names(tmp_path) == ["a.json"]
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == '{"name": "émile"}\n'


def test_files_move_in_next_to_others_together(tmp_path):
    (tmp_path / ".partial").mkdir()
    (tmp_path / ".partial" / "litter").touch()
    (tmp_path / "mine").touch()
    with writing_into(tmp_path) as aside:
        (aside / "weights").write_text("w")
        (aside / "config").write_text("c")
        assert names(tmp_path) == [".partial", ".partial/config", ".partial/weights", "mine"]
    assert names(tmp_path) == ["config", "mine", "weights"]


@pytest.mark.parametrize(("code", "words"), [(errno.ENOSPC, "the disk is full"), (errno.EIO, "it cannot be written")])
def test_a_disk_that_refuses_is_one_line(tmp_path, monkeypatch, code, words):
    def refuse(_handle):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files.os, "fsync", refuse)
    with pytest.raises(CannotWriteError, match=f"a.bin: {words} "):
        write_aside(tmp_path / "a.bin", b"data")
    assert names(tmp_path) == []


def test_every_file_of_a_folder_is_flushed_before_it_appears(tmp_path, monkeypatch):
    flushed, fsync = [], os.fsync

    def note(handle):
        flushed.append((os.readlink(f"/proc/self/fd/{handle}"), (tmp_path / "model").exists()))
        fsync(handle)

    monkeypatch.setattr(files.os, "fsync", note)
    with writing_aside(tmp_path / "model") as aside:
        (aside / "inner").mkdir(parents=True)
        (aside / "inner" / "weights").write_text("w")
        (aside / "config").write_text("c")
    assert [(os.path.basename(path), there) for path, there in flushed[:2]] in (
        [("config", False), ("weights", False)],
        [("weights", False), ("config", False)],
    )
    assert flushed[2:] == [(str(tmp_path), True)]
