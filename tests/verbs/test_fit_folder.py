"""The folder of a fit: never somebody else's, and whole after kill -9 at any point."""

import json
import os
import signal

import pytest
import torch
from safetensors.torch import load_file
from tests.verbs.test_fit import SMALL, planted

from fakes import hf_model, tokenizer_for
from troth.attribution_model import saving
from troth.attribution_model import search as _attributive_search
from troth.attribution_model.start import FitSettings
from troth.core.errors import TrothError
from troth.training import output
from troth.verbs import fit as attributive_masking
from troth.verbs.fit import fit

SETTINGS = FitSettings(**{**SMALL, "examples": 20, "trial_examples": 10, "trials": 3})
METRICS = ("comprehensiveness", "sufficiency")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    hf_model(classes=2).save_pretrained(folder)
    tokenizer_for("bert").save_pretrained(folder)
    return folder


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("restart", [False, True])
def test_a_folder_that_is_not_ours_is_left_as_it_is(model, restart):
    before = contents(model)
    with pytest.raises(TrothError, match="nothing was changed: choose another --out"):
        fit(str(model), planted(30), model, settings=SETTINGS, restart=restart)
    assert contents(model) == before


def test_an_impossible_folder_is_noticed_before_any_work(tmp_path):
    (tmp_path / "file").write_text("a user's")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(TrothError, match="choose another --out"):
            fit("/no/such/model", "no_such_data", out)  # neither is looked for
    assert (tmp_path / "file").read_text() == "a user's"


def run(model, out, metrics=METRICS, say=None):
    return fit(str(model), planted(30), out, metrics=metrics, settings=SETTINGS, backbone="explained", say=say)


def killed(model, out, point):
    """A fit in a process of its own that is killed at a point: after so many trials, or while a folder is written."""
    process = os.fork()
    if process:
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
        return
    place, _, number = point.partition(" ")

    def after(calls):
        if len(calls) > int(number):
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(module, name):
        real, calls = getattr(module, name), []

        def call(*arguments, **options):
            calls.append(name)
            after(calls)
            return real(*arguments, **options)

        setattr(module, name, call)

    names = {
        "trial": (_attributive_search, "write_json"), "training": (attributive_masking, "is_better"),
        "weights": (saving, "save_file"), "facts": (os, "replace"), "claim": (output, "claim"),
        "settle": (attributive_masking, "settle"),
    }  # fmt: skip
    try:
        counted(*names[place])
        run(model, out)
    finally:
        os._exit(1)


def outcome(folder):
    """All that a fit leaves that does not tell the time."""
    found = {}
    for metric in METRICS:
        facts = saving.facts(folder / metric)
        found[metric] = {name: facts[name] for name in ("loss", "best_step", "scores", "history", "search", "identity")}
        weights = load_file(str(folder / metric / "attributive.safetensors"))
        found[metric]["weights"] = {name: weight.sum().item() for name, weight in weights.items()}
    return found


@pytest.fixture(scope="module")
def uninterrupted(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit") / "whole"
    run(model, folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        "comprehensiveness",
        "fit.json",
        "search.json",
        *METRICS[1:],
    ]
    return outcome(folder)


def check_killed(model, folder, points, uninterrupted):
    for point in points:
        killed(model, folder, point)
    lines = []
    run(model, folder, say=lines.append)
    assert outcome(folder) == uninterrupted
    return lines


def test_killed_twice_and_resumed(model, tmp_path, uninterrupted):
    # In the second trial, then while the second model's weights are written.
    lines = check_killed(model, tmp_path / "fit", ["trial 1", "weights 1"], uninterrupted)
    assert not [line for line in lines if line.startswith("trial")]  # the trials were found, not done again


@pytest.mark.full
@pytest.mark.parametrize(
    "point",
    [
        "claim 0",
        "trial 0",
        "trial 2",
        "training 0",
        "training 1",
        "weights 0",
        "facts 0",
        "facts 2",
        "facts 4",
        "settle 0",
    ],
)
def test_killed_anywhere_and_resumed(model, tmp_path, uninterrupted, point):
    check_killed(model, tmp_path / "fit", [point], uninterrupted)


def test_damaged_files_are_named_and_made_again(model, tmp_path, uninterrupted):
    folder = tmp_path / "fit"
    run(model, folder)
    for damage in ("", "[1, 2]", '{"trials": 5}', json.dumps({"identity": {}, "sampler": 1, "trials": [{}]})):
        (folder / "search.json").write_text(damage)
        (folder / "sufficiency" / saving.FACTS).write_text(damage)
        lines = []
        run(model, folder, say=lines.append)
        assert any("search.json is damaged" in line for line in lines)
        assert any("attributive.json cannot be read" in line for line in lines)
        assert outcome(folder) == uninterrupted
    assert torch.is_tensor(load_file(str(folder / "sufficiency" / "attributive.safetensors"))["prediction"])
