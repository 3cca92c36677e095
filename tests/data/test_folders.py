import gzip
import json
import subprocess
import sys

import pytest

from troth.core.errors import TrothError
from troth.data import load_data


def fails(source, **options):
    with pytest.raises(TrothError) as caught:
        load_data(source, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def jsonl(path, rows):
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def texts(data):
    return [example.text for example in data]


@pytest.fixture
def splits(tmp_path):
    for name in ("train", "validation", "test"):
        jsonl(tmp_path / f"{name}.jsonl.gz", [{"text": f"{name} a", "label": 0}, {"text": f"{name} b", "label": 1}])
    return tmp_path


def test_a_folder_of_split_files(splits):
    assert texts(load_data(splits)) == ["validation a", "validation b"]
    assert texts(load_data(splits, split="dev")) == ["validation a", "validation b"]
    data = load_data(str(splits), split="train")
    assert texts(data) == ["train a", "train b"]
    assert data.split == "train"


def test_without_validation_the_test_split_is_the_default(splits):
    (splits / "validation.jsonl.gz").unlink()
    assert texts(load_data(splits)) == ["test a", "test b"]


def test_unknown_and_undecided_splits(splits):
    assert fails(splits, split="tests") == (
        f"{splits}: no split is called 'tests'; did you mean test? there are: test, train, validation"
    )
    for name in ("validation", "test"):
        (splits / f"{name}.jsonl.gz").rename(splits / f"{name}_2.jsonl.gz")
    assert fails(splits) == f"{splits}: which split? there are: test_2, train, validation_2"


def test_val_is_validation_and_shards_are_joined(tmp_path):
    jsonl(tmp_path / "val.jsonl", [{"text": "v"}])
    jsonl(tmp_path / "train-00001-of-00002.jsonl", [{"text": "second"}])
    jsonl(tmp_path / "train-00000-of-00002.jsonl", [{"text": "first"}])
    assert texts(load_data(tmp_path)) == ["v"]
    assert texts(load_data(tmp_path, split="train")) == ["first", "second"]


def test_the_data_folder_of_a_cloned_repository(tmp_path):
    (tmp_path / "data").mkdir()
    jsonl(tmp_path / "data" / "test.jsonl", [{"text": "t"}])
    assert texts(load_data(tmp_path)) == ["t"]


@pytest.fixture
def saved(tmp_path):
    import datasets

    classes = datasets.ClassLabel(names=["bad", "good"])
    features = datasets.Features({"sentence": datasets.Value("string"), "label": classes})
    parts = {
        name: datasets.Dataset.from_dict({"sentence": [f"{name} a", f"{name} b"], "label": [1, 0]}, features=features)
        for name in ("train", "test")
    }
    return datasets.DatasetDict(parts), tmp_path


def check(data, split):
    assert [(example.text, example.label) for example in data] == [(f"{split} a", 1), (f"{split} b", 0)]
    assert data.labels == ("bad", "good")


def test_saved_datasets_folders(saved):
    both, folder = saved
    both.save_to_disk(str(folder / "both"))
    both["train"].save_to_disk(str(folder / "one"))
    check(load_data(folder / "both"), "test")
    check(load_data(folder / "both", split="train"), "train")
    check(load_data(folder / "both" / "train"), "train")
    check(load_data(folder / "one"), "train")
    assert "no split is called 'dev'" in fails(folder / "both", split="dev")


def test_a_broken_saved_folder(saved):
    both, folder = saved
    both["train"].save_to_disk(str(folder / "one"))
    (folder / "one" / "dataset_info.json").unlink()
    assert fails(folder / "one").startswith(f"{folder / 'one'} cannot be read as a saved `datasets` folder (")


def test_datasets_in_memory(saved):
    both, _ = saved
    check(load_data(both), "test")
    check(load_data(both["train"]), "train")


def test_a_hub_name_is_loaded_by_split_and_configuration(saved, monkeypatch):
    import datasets

    both, _ = saved
    asked = []

    def load_dataset(name, config, split, revision):
        asked.append((name, config, split, revision))
        return both[split]

    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda name, config, revision: list(both))
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    check(load_data("someone/films"), "test")
    check(load_data("someone/films:short", split="train"), "train")
    assert asked == [("someone/films", None, "test", None), ("someone/films", "short", "train", None)]
    assert "someone/films: no split is called 'dev'" in fails("someone/films", split="dev")


def test_a_repository_with_a_script_is_read_from_its_parquet_copy(saved, monkeypatch):
    import datasets

    both, _ = saved

    def names(name, config, revision):
        if revision is None:
            raise RuntimeError("Dataset scripts are no longer supported, but found films.py")
        return list(both)

    monkeypatch.setattr(datasets, "get_dataset_split_names", names)
    monkeypatch.setattr(datasets, "load_dataset", lambda name, config, split, revision: both[split])
    check(load_data("someone/films"), "test")


def test_the_hub_out_of_reach_is_one_line():
    message = fails("nobody/nothing-at-all")
    assert message.startswith("nobody/nothing-at-all cannot be loaded from the hub (")
    assert message.endswith("check the name and the network, or give a file or folder that exists")


def test_importing_data_imports_no_slow_library():
    code = "import sys, troth.data; print([name for name in ('datasets', 'pyarrow', 'pandas') if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


def annotation(id, label, pieces, docids=None, query="how is it?"):
    groups = [[{"docid": name, "start_token": start, "end_token": end} for name, start, end in pieces]]
    return {"annotation_id": id, "classification": label, "evidences": groups, "docids": docids, "query": query}


@pytest.fixture
def eraser(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("a dull film .\nvery dull indeed .")
    (tmp_path / "docs" / "b.txt").write_text("what a joy .")
    first = annotation("a.txt", "NEG", [("a.txt", 1, 2), ("a.txt", 4, 6)])
    rows = [first, annotation("b.txt", "POS", [], query="and this?")]
    for name in ("train", "val", "test"):
        jsonl(tmp_path / f"{name}.jsonl", rows)
    return tmp_path


def test_the_eraser_layout(eraser):
    data = load_data(eraser)
    assert data.split == "validation"
    first, second = data
    assert (first.id, first.label, first.text_pair) == ("a.txt", 0, "how is it?")
    assert [first.text[start:end] for start, end in first.rationale] == ["dull", "very dull"]
    assert first.text == "a dull film .\nvery dull indeed ."
    assert (second.text, second.label, second.rationale) == ("what a joy .", 1, ())
    assert data.labels == ("NEG", "POS")


def test_eraser_rows_with_several_documents_packed_in_one_file(tmp_path):
    documents = {"1_premise": "a man sleeps", "1_hypothesis": "he is awake"}
    jsonl(tmp_path / "docs.jsonl", [{"docid": name, "document": text} for name, text in documents.items()])
    pieces = [("1_hypothesis", 2, 3), ("1_premise", 2, 3)]
    names = ["1_premise", "1_hypothesis"]
    jsonl(tmp_path / "test.jsonl", [annotation("1", "contradiction", pieces, names, query="")])
    example = load_data(tmp_path)[0]
    assert example.text == "a man sleeps\nhe is awake"
    assert [example.text[start:end] for start, end in example.rationale] == ["sleeps", "awake"]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (annotation("c.txt", "NEG", []), ": row 1 names the document 'c.txt', which is not in docs"),
        (annotation("../test.jsonl", "NEG", []), ": row 1 names the document '../test.jsonl', which is not in docs"),
        (
            annotation("b.txt", "NEG", [("b.txt", 2, 9)]),
            ": row 1: the rationale names tokens 2 to 9, but the text has 4",
        ),
        ({"text": "a"}, ": row 1 is not an ERASER annotation: it needs annotation_id and classification"),
    ],
)
def test_broken_eraser_rows(eraser, row, problem):
    jsonl(eraser / "test.jsonl", [row])
    assert fails(eraser, split="test") == f"test.jsonl{problem}"
