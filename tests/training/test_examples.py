import json

import pytest

from troth.core.errors import NoSplitError, TrothError
from troth.core.types import Example
from troth.data import load_data
from troth.training.examples import load_labeled


def write(folder, split, rows):
    (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def rows(labels, start=0):
    return [{"text": f"text {start + i}", "label": label} for i, label in enumerate(labels)]


def test_splits_of_a_folder_and_words_numbered_alike_in_both(tmp_path):
    write(tmp_path, "train", rows(["neg", "neutral", "pos"] * 3))
    write(tmp_path, "validation", rows(["pos", "neg"], start=100))  # alone, pos would be class 1
    found = load_labeled(tmp_path)
    assert found.labels == ("neg", "neutral", "pos")
    assert [example.label for example in found.validation] == [2, 0]
    assert len(found.training) == 9


def test_without_a_validation_split_a_fifth_is_held_out_the_same_for_all(tmp_path):
    write(tmp_path, "train", rows([0, 1] * 50))
    found, again = load_labeled(tmp_path), load_labeled(tmp_path)
    assert (len(found.training), len(found.validation)) == (80, 20)
    assert [one.id for one in found.validation] == [one.id for one in again.validation]
    assert not {one.text for one in found.validation} & {one.text for one in found.training}
    assert any("held out 20 of 100" in note for note in found.notes)
    single = load_labeled(tmp_path / "train.jsonl", hold_out=0.1)
    assert len(single.validation) == 10


def test_hold_out_leaves_the_validation_split_for_testing(tmp_path):
    write(tmp_path, "train", rows([0, 1] * 50))
    write(tmp_path, "validation", rows([0, 1], start=500))
    found = load_labeled(tmp_path, hold_out=0.2, tests=["validation"])
    assert (len(found.validation), len(found.others["validation (test)"])) == (20, 2)


def test_another_source_to_validate_on(tmp_path):
    write(tmp_path, "train", rows(["a", "b"] * 5))
    write(tmp_path, "extra", rows(["b"], start=50))
    found = load_labeled(tmp_path / "train.jsonl", tmp_path / "extra.jsonl")
    assert [example.label for example in found.validation] == [1]


def test_catalog_entries_bring_their_metric_and_classes():
    found = load_labeled("babi(size=20)", tests=["test"])
    assert found.name == "babi"
    assert found.labels[0] == "bathroom"
    assert (len(found.training), len(found.validation), len(found.others["test"])) == (20, 20, 20)


@pytest.mark.parametrize(
    ("labels", "names", "numbers"),
    [
        (["pos", "neg"], ("neg", "pos"), [1, 0]),
        ([1.0, 0.0], ("0", "1"), [1, 0]),
        ([True, False], ("False", "True"), [1, 0]),
        (["1", "0"], ("0", "1"), [1, 0]),
        ([2, 0], ("0", "1", "2"), [2, 0]),
    ],
)
@pytest.mark.filterwarnings("ignore:no training example")
def test_labels_may_be_words_floats_or_booleans(labels, names, numbers):
    examples = [Example(str(i), f"text {i}", label=label) for i, label in enumerate(labels * 4)]
    found = load_labeled(examples[:6], examples[6:])
    assert found.labels == names
    assert [example.label for example in found.training[:2]] == numbers


def test_labels_that_are_no_classes_are_refused():
    examples = [Example(str(i), f"text {i}", label=i / 10) for i in range(10)]
    with pytest.raises(TrothError, match=r"row 2 has the label 0\.1; a class is a whole number or a word"):
        load_labeled(examples, examples)
    with pytest.raises(TrothError, match="example 3 has no label, and training needs one for each"):
        load_labeled([Example(str(i), "t", label=None if i == 3 else i % 2) for i in range(10)])
    with pytest.raises(TrothError, match=r"memory: no labels were found.*name their column \(--label\)"):
        load_labeled([Example(str(i), "t") for i in range(10)])
    with pytest.raises(TrothError, match="all 8 training examples of memory are of class '1'"):
        load_labeled([Example(str(i), f"t{i}", label=1) for i in range(10)])
    with pytest.raises(TrothError, match="no class is called 'c'"):
        load_labeled([Example(str(i), f"t{i}", label="ab"[i % 2]) for i in range(4)], [Example("9", "new", label="c")])


def test_a_class_without_example_is_warned_of_by_name():
    data = load_data([{"text": f"t{i}", "label": i % 2} for i in range(10)], labels=("no", "yes", "maybe"))
    with pytest.warns(UserWarning, match="no training example is of class maybe"):
        found = load_labeled(data)
    assert found.labels == ("no", "yes", "maybe")


def test_overlap_is_warned_of_with_the_count():
    examples = [Example(str(i), f"text {i}", label=i % 2) for i in range(10)]
    shared = [Example(f"v{i}", f"text {i}", label=i % 2) for i in (1, 2, 7)]
    fresh = [Example("new", "a new text", label=0), Example("pair", "text 1", "a second text", label=0)]
    with pytest.warns(UserWarning, match="3 of 5 validation examples are also training examples"):
        found = load_labeled(examples, shared + fresh)
    assert any("3 of 5" in note for note in found.notes)


def test_too_little_data_is_an_error():
    with pytest.raises(TrothError, match=r"2 examples of .* are too few to hold out 20%"):
        load_labeled([Example("0", "a", label=0), Example("1", "b", label=1)])
    with pytest.raises(TrothError, match="hold_out must be a share between 0 and 1, not 2"):
        load_labeled([Example(str(i), "a", label=i) for i in range(9)], hold_out=2)


def test_on_the_hub_the_validation_split_is_used_if_there_is_one(monkeypatch):
    from troth.data.sources.readers import Table

    there = {"train": rows(["a", "b"] * 10), "validation": rows(["b", "a"], start=50)}

    def read_hub(name, split):
        if split not in there:
            raise NoSplitError(f"{name}: no split is called {split!r}; there are: train")
        return Table.of(name, there[split])

    monkeypatch.setattr("troth.data.read_hub", read_hub)
    assert [example.label for example in load_labeled("owner/name").validation] == [1, 0]
    del there["validation"]
    assert len(load_labeled("owner/name").validation) == 4
