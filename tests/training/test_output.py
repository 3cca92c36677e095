import os

import pytest

from troth.core.errors import TrothError
from troth.training.output import claim, claim_file, own_folder, require_writable, settle


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_missing_or_empty_folder_is_ours_and_nothing_is_made(tmp_path):
    assert own_folder(tmp_path / "a" / "b", "train.json") == tmp_path / "a" / "b"
    assert not (tmp_path / "a").exists()
    (tmp_path / "empty").mkdir()
    own_folder(tmp_path / "empty", "train.json")
    assert not any((tmp_path / "empty").iterdir())


def test_a_folder_with_the_marker_is_ours(tmp_path):
    (tmp_path / "train.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"x")
    own_folder(tmp_path, "train.json")
    with pytest.raises(TrothError, match=r"its train\.json is not ours"):
        own_folder(tmp_path, "train.json", is_ours=lambda file: False)


def test_a_foreign_folder_is_refused_in_one_line_and_left_as_it_was(tmp_path):
    (tmp_path / "checkpoints" / "step-000000001").mkdir(parents=True)
    (tmp_path / "checkpoints" / "step-000000001" / "weights").write_bytes(b"theirs")
    (tmp_path / "config.json").write_text("theirs")
    before = contents(tmp_path)
    with pytest.raises(TrothError, match=r"contains checkpoints.*no train\.json of ours; nothing") as refused:
        own_folder(tmp_path, "train.json")
    assert "\n" not in str(refused.value)
    assert contents(tmp_path) == before


def test_a_claimed_folder_stays_ours_until_the_marker_is_there(tmp_path):
    folder = tmp_path / "new"
    claim(folder, "train.json")
    (folder / "checkpoints").mkdir()
    own_folder(folder, "train.json")
    with pytest.raises(TrothError, match="not empty"):
        own_folder(folder, "fit.json")
    (folder / "train.json").write_text("{}")
    settle(folder, "train.json")
    assert not claim_file(folder, "train.json").exists()
    own_folder(folder, "train.json")


@pytest.mark.parametrize("name", ["file", "file/below", "x" * 300, "dangling", "nul\0byte"])
def test_an_impossible_folder_is_noticed(tmp_path, name):
    (tmp_path / "file").write_text("theirs")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(TrothError, match="choose another --out"):
        own_folder(tmp_path / name, "train.json")
    assert (tmp_path / "file").read_text() == "theirs"


@pytest.mark.skipif(os.geteuid() == 0 and not os.path.isdir("/proc/self"), reason="root writes everywhere but in /proc")
def test_a_folder_that_cannot_be_written_is_noticed(tmp_path):
    place = "/proc/self/new"
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
        place = tmp_path / "new"
    with pytest.raises(TrothError, match="cannot write to"):
        require_writable(place)
