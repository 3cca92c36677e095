"""One rule for settings (the user's, the paper's, the base's, the default) and one for splits that are missing."""

import json

import pytest

from troth.core.errors import NoSplitError, TrothError
from troth.core.types import Example
from troth.data.sources.readers import Table
from troth.training import bases, presets, recipes
from troth.training.examples import load_labeled, load_three_splits, load_training
from troth.training.train import plan


def resolved(paper, **user):
    return presets.resolve(user, paper, recipes.build("plain"), bases.build("scratch"), "sst", pair=False)


def test_the_user_goes_before_the_paper_before_the_base():
    assert resolved(None)["learning_rate"] == 5e-4  # the base's own
    assert resolved("saloss")["learning_rate"] == 1e-5
    assert resolved("saloss", learning_rate=3e-3)["learning_rate"] == 3e-3
    assert resolved("saloss")["clip"] == 1.0  # the paper leaves it to the base
    assert "seed" not in resolved("saloss")  # nobody decides: the default of Settings
    method, base = recipes.build("plain"), bases.build("scratch")
    left = presets.resolve({}, "saloss", method, base, "sst", pair=False, without=("head_learning_rate",))
    assert {"head_learning_rate": 1e-4, **left} == resolved("saloss")


def write(folder, **splits):
    for name, ids in splits.items():
        rows = [{"id": f"{name}{i}", "text": f"{name} {i}", "label": "ab"[i % 2]} for i in range(ids)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def origins(data):
    return {example.id.rstrip("0123456789") for example in data}


def test_a_test_split_that_is_missing_is_the_validation_split_or_held_out(tmp_path):
    for name in ("three", "two", "one"):
        (tmp_path / name).mkdir()
    three = load_three_splits(write(tmp_path / "three", train=20, validation=6, test=8))
    assert [len(three.training), len(three.validation), len(three.others["test"])] == [20, 6, 8]
    two = load_three_splits(write(tmp_path / "two", train=20, validation=6), hold_out=0.1)
    assert [len(two.training), len(two.validation), len(two.others["test"])] == [18, 2, 6]
    assert origins(two.others["test"]) == {"validation"}
    assert origins(two.training) == origins(two.validation) == {"train"}
    one = load_three_splits(write(tmp_path / "one", train=50))
    assert [len(one.training), len(one.validation), len(one.others["test"])] == [32, 8, 10]
    ids = [example.id for part in (one.training, one.validation, one.others["test"]) for example in part]
    assert len(set(ids)) == 50
    assert one.others["test"].fingerprint == load_labeled(tmp_path / "one").validation.fingerprint


def test_splits_in_memory():
    examples = {
        name: [Example(f"{name}{i}", f"{name} {i}", label="ab"[i % 2]) for i in range(20)] for name in ("train", "test")
    }
    labeled = load_three_splits(examples, limit=10)
    assert [len(labeled.training), len(labeled.validation), len(labeled.others["test"])] == [8, 2, 10]
    assert origins(labeled.others["test"]) == {"test"}
    with pytest.raises(TrothError, match="must be train, test and perhaps validation, not train"):
        load_three_splits({"train": examples["train"]})


def test_a_training_split_is_used_where_there_is_one_and_required_where_several_are_not_it(tmp_path):
    write(tmp_path, validation=4, test=4)
    assert origins(load_training(tmp_path, required=False)) == {"validation"}
    with pytest.raises(TrothError, match="has no train split, only test, validation"):
        load_training(tmp_path, required=True)
    write(tmp_path, train=4)
    assert origins(load_training(tmp_path, required=False)) == {"train"}


def test_of_the_hub_the_training_split_is_read(monkeypatch):
    there = {name: [{"id": f"{name}{i}", "text": name} for i in range(2)] for name in ("train", "validation")}

    def read_hub(name, split):
        split = split or "validation"
        if split not in there:
            raise NoSplitError(f"{name}: no split is called {split!r}")
        return Table.of(name, there[split])

    monkeypatch.setattr("troth.data.read_hub", read_hub)
    assert origins(load_training("owner/name", required=False)) == {"train"}
    del there["train"]
    assert origins(load_training("owner/name", required=False)) == {"validation"}
    with pytest.raises(NoSplitError):
        load_training("owner/name", required=True)


def test_a_papers_own_splits_are_not_cut_again(tmp_path, monkeypatch):
    monkeypatch.setenv("TROTH_DATA", str(tmp_path))
    (tmp_path / "ag_news").mkdir()
    rows = [{"text": f"text {i}", "label": i % 4} for i in range(100)]
    for split in ("train", "test"):
        (tmp_path / "ag_news" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    labeled = plan("plain", "ag_news", "scratch", like="saloss").labeled
    assert [len(labeled.training), len(labeled.validation)] == [85, 15]
    assert labeled.validation.split == "validation"
    given = plan("plain", "ag_news", "scratch", like="saloss", hold_out=0.2).labeled
    assert [len(given.training), len(given.validation)] == [68, 17]
