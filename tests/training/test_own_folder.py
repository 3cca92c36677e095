"""Trainings write to their own folders only, and damage to what they keep is named, set aside and done again."""

import json
import shutil

import pytest
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from sampled import every
from troth.cli import app
from troth.core.errors import TrothError
from troth.training import train as fit
from troth.training.train import train
from troth.verbs import tune as tuning

BASE = "bilstm_attention(embedding=4, hidden=3)"
OPTIONS = {"epochs": 3, "batch_size": 8, "cpu": True, "precision": "no", "metric": "accuracy"}


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def theirs(tmp_path):
    """A Hugging Face folder that somebody trained elsewhere, with checkpoints and a data file called train.json."""
    folder = tmp_path / "theirs"
    (folder / "checkpoints" / "step-000000009").mkdir(parents=True)
    (folder / "checkpoints" / "step-000000009" / "state.json").write_text("{}")
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (folder / name).write_text("theirs")
    return folder


def test_a_folder_that_is_not_ours_is_left_as_it_was(films, theirs):
    for attempt in range(2):
        before = contents(theirs)
        for resume in (True, False):
            with pytest.raises(TrothError, match=r"train\.json.*nothing was changed: choose another --out"):
                train("plain", films(20), BASE, theirs, resume=resume, **OPTIONS)
        with pytest.raises(TrothError, match="nothing was changed"):
            tuning.search("salience", films(20), BASE, theirs, **OPTIONS)
        assert contents(theirs) == before
        if attempt == 0:  # another tool's training data
            (theirs / "train.json").write_text('[{"text": "a", "label": 1}]')


def test_the_command_refuses_before_any_work(films, theirs, monkeypatch):
    monkeypatch.setattr(fit, "plan", lambda *_, **__: pytest.fail("work was done"))
    (theirs.parent / "file").write_text("x")
    for out in (theirs, theirs.parent / "file", theirs.parent / "file" / "below"):
        for extra in ([], ["--restart"]):
            arguments = ["train", "plain", "--data", "sst", "--base", BASE, "--out", str(out), *extra]
            said = CliRunner().invoke(app, arguments)
            assert isinstance(said.exception, TrothError), said.output
            assert "choose another --out" in str(said.exception)


def test_our_own_folder_is_taken_up_and_restarted_and_foreign_files_in_it_stay(films, tmp_path):
    first = train("plain", films(20), BASE, tmp_path / "m", **OPTIONS)
    assert not list((tmp_path / "m").glob(".*"))
    (tmp_path / "m" / "checkpoints").mkdir()
    (tmp_path / "m" / "checkpoints" / "mine.txt").write_text("mine")
    again = train("plain", films(20), BASE, tmp_path / "m", resume=False, **OPTIONS)
    assert again.report["history"] == first.report["history"]
    assert (tmp_path / "m" / "checkpoints" / "mine.txt").read_text() == "mine"
    assert not list((tmp_path / "m" / "checkpoints").glob("step-*"))


DAMAGE = {
    "truncated": lambda text: text[: len(text) // 2],
    "another shape": lambda text: '{"identity": []}',
    "scores missing": lambda text: json.dumps({**json.loads(text), "scores": {}}),
    "notes of another kind": lambda text: json.dumps({**json.loads(text), "notes": "none"}),
}


@pytest.mark.parametrize("how", every(3, DAMAGE))
def test_a_damaged_report_is_set_aside_and_the_training_done_again(films, tmp_path, how):
    whole = train("plain", films(20), BASE, tmp_path / "m", **OPTIONS)
    file = tmp_path / "m" / "train.json"
    file.write_text(DAMAGE[how](file.read_text()))
    again = train("plain", films(20), BASE, tmp_path / "m", **OPTIONS)
    assert again.report["history"] == whole.report["history"]
    assert any("train.json was damaged" in note for note in again.report["notes"])
    assert (tmp_path / "m" / "train.json.damaged").is_file()
    assert json.loads(file.read_text())["scores"] == whole.report["scores"]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """The folder of a training that was stopped after its second epoch, and what it comes to if it is not."""
    from films import film

    folder = tmp_path_factory.mktemp("stopped")
    examples = [film(number) for number in range(20)]
    whole = train("plain", examples, BASE, folder / "whole", **OPTIONS)
    ended = []

    class StoppedError(Exception):
        pass

    def end_epoch(loop):
        original(loop)
        ended.append(loop)

    def save(loop):
        saved(loop)
        if len(ended) == 2:
            raise StoppedError

    from troth.training.fit import SingleLoop

    original, saved = SingleLoop._end_epoch, SingleLoop._save
    SingleLoop._end_epoch, SingleLoop._save = end_epoch, save
    try:
        with pytest.raises(StoppedError):
            train("plain", examples, BASE, folder / "stopped", **OPTIONS)
    finally:
        SingleLoop._end_epoch, SingleLoop._save = original, saved
    return examples, folder / "stopped", whole


def _cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _reshape(path):
    save_file({name: tensor.flatten()[:1].clone() for name, tensor in load_file(str(path)).items()}, str(path))


def _say(**changes):
    def change(path):
        kept = json.loads(path.read_text())
        path.write_text(json.dumps({**kept, "state": {**kept["state"], **changes}}))

    return change


BROKEN = {
    "state.json truncated": ("step-*/state.json", _cut),
    "state.json a list": ("step-*/state.json", lambda path: path.write_text("[]")),
    "state.json missing": ("step-*/state.json", lambda path: path.unlink()),
    "epoch is a word": ("step-*/state.json", _say(epoch="two")),
    "epochs do not agree": ("step-*/state.json", _say(epoch=3)),
    "weights truncated": ("step-*/model.safetensors", _cut),
    "weights of another shape": ("step-*/model.safetensors", _reshape),
    "optimizer truncated": ("step-*/optimizer.safetensors", _cut),
    "optimizer of another shape": ("step-*/optimizer.safetensors", _reshape),
    "best weights missing": ("best-*.safetensors", lambda path: path.unlink()),
    "best weights truncated": ("best-*.safetensors", _cut),
}


@pytest.mark.parametrize("name", every(4, BROKEN))
def test_a_damaged_checkpoint_is_set_aside_and_the_training_begins_anew(stopped, tmp_path, name):
    examples, folder, whole = stopped
    shutil.copytree(folder, tmp_path / "m")
    pattern, damage = BROKEN[name]
    (path,) = (tmp_path / "m" / "checkpoints").glob(pattern)
    damage(path)
    again = train("plain", examples, BASE, tmp_path / "m", **OPTIONS)
    assert again.report["history"] == whole.report["history"]
    assert [note for note in again.report["notes"] if "was damaged" in note and "started over" in note]
    assert not (tmp_path / "m" / "checkpoints").exists()


def test_a_whole_checkpoint_is_gone_on_with(stopped, tmp_path):
    examples, folder, whole = stopped
    shutil.copytree(folder, tmp_path / "m")
    again = train("plain", examples, BASE, tmp_path / "m", **OPTIONS)
    assert again.report["history"] == whole.report["history"]
    assert not any("damaged" in note for note in again.report["notes"])
    shutil.copytree(folder, tmp_path / "n")
    with pytest.raises(TrothError, match="was written by a different run: its epochs is 3, not 4"):
        train("plain", examples, BASE, tmp_path / "n", **{**OPTIONS, "epochs": 4})
