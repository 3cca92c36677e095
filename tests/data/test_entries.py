import gzip
import json
import os
from pathlib import Path

import pytest

from troth.core import catalog
from troth.core.errors import NoSplitError, TrothError
from troth.data import Dataset, load_data
from troth.data.sources.published import Published

NAMES = catalog.names("data")
PUBLISHED = [name for name in NAMES if issubclass(catalog.find("data", name), Published)]
METRICS = {"accuracy", "macro_f1", "micro_f1", "matthews"}

ROAR = {"sst", "imdb", "snli", "babi1", "babi2", "babi3", "anemia", "diabetes"}
FMM = {*ROAR, "boolq", "cb", "cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2"} - {"sst"}
OTHERS = {"ag_news", "emotion", "rotten_tomatoes", "semeval2017_4a", "eraser_movies", "evidence_inference", "multirc"}
OURS = {"reviews", "babi"}


def test_the_data_sets_of_the_papers_are_there():
    assert (len(FMM), len(ROAR)) == (16, 8)
    assert not (FMM | ROAR | OTHERS | OURS) - set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_says_what_it_is(name):
    entry = catalog.build("data", name)
    assert isinstance(entry, Dataset)
    assert entry.name == name
    assert len(set(entry.labels)) == len(entry.labels) >= 2
    assert entry.metric in METRICS
    assert set(entry.splits) <= {"train", "validation", "test"}
    assert catalog.summary("data", name)[-1] in ".?"


@pytest.mark.parametrize("name", PUBLISHED)
def test_without_folder_and_network_one_line_says_how_to_come_by_it(name, monkeypatch):
    monkeypatch.delenv("TROTH_DATA", raising=False)
    with pytest.raises(TrothError) as caught:
        load_data(name)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{name}: TROTH_DATA names no folder; ")
    entry = catalog.build("data", name)
    assert (f"{entry.hub} cannot be loaded from the hub" if entry.hub else entry.obtain) in message


@pytest.mark.parametrize("name", ["anemia", "diabetes"])
def test_a_licence_is_explained(name, monkeypatch):
    monkeypatch.delenv("TROTH_DATA", raising=False)
    with pytest.raises(TrothError, match=r"need a license: apply at https://physionet\.org.*pass a file of your own"):
        load_data(name)


def put(folder, split, rows):
    folder.mkdir(exist_ok=True)
    (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("name", [name for name in PUBLISHED if not name.startswith("babi")])
@pytest.mark.parametrize("layout", ["plain", "hub"])
def test_a_local_folder_with_our_columns_or_the_hubs(name, layout, tmp_path, monkeypatch):
    entry = catalog.build("data", name)
    hub = (entry.text_column, entry.auxiliary, entry.label)
    text, pair, label = hub if layout == "hub" else ("text", "text_pair", "label")
    rows = [{text: f"text {n}", label: n % len(entry.labels), "other": "x"} for n in range(4)]
    if entry.auxiliary:
        rows = [{**row, pair: f"pair {n}"} for n, row in enumerate(rows)]
    put(tmp_path / name, "train", rows)
    monkeypatch.setenv("TROTH_DATA", str(tmp_path))
    data = load_data(name, split="train")
    assert [example.text for example in data] == [f"text {n}" for n in range(4)]
    assert [example.text_pair for example in data] == [f"pair {n}" if entry.auxiliary else None for n in range(4)]
    assert [example.label for example in data] == [n % len(entry.labels) for n in range(4)]
    assert (data.labels, data.name, data.split) == (entry.labels, name, "train")
    official = entry.splits["train"]
    assert data.notes == ((f"train here has 4 rows, the official one {official:,}",) if official else ())


def test_words_as_labels_follow_the_entry_not_the_alphabet(tmp_path, monkeypatch):
    put(tmp_path / "snli", "test", [{"premise": "a", "hypothesis": "b", "label": "neutral"}])
    monkeypatch.setenv("TROTH_DATA", str(tmp_path))
    assert load_data("snli")[0].label == 1


def test_snli_leaves_out_what_nobody_agreed_on(tmp_path, monkeypatch):
    put(tmp_path / "snli", "test", [{"premise": "a", "hypothesis": "b", "label": n} for n in (-1, 2)])
    monkeypatch.setenv("TROTH_DATA", str(tmp_path))
    data = load_data("snli")
    assert [example.label for example in data] == [2]
    assert data.notes[0] == "left out 1 rows on which the annotators did not agree"


def test_a_hidden_label_elsewhere_is_an_error(tmp_path, monkeypatch):
    put(tmp_path / "rte", "validation", [{"sentence1": "a", "sentence2": "b", "label": -1}])
    monkeypatch.setenv("TROTH_DATA", str(tmp_path))
    with pytest.raises(TrothError, match=r"validation\.jsonl: row 1 has the label -1; classes count from 0"):
        load_data("rte")


def test_multirc_joins_question_and_answer_as_eraser_does(tmp_path, monkeypatch):
    put(tmp_path / "multirc_superglue", "train", [{"paragraph": "p", "question": "q?", "answer": "a", "label": 1}])
    monkeypatch.setenv("TROTH_DATA", str(tmp_path))
    assert load_data("multirc_superglue", split="train")[0].text_pair == "q? || a"


def test_the_eraser_layout_behind_an_entry(tmp_path, monkeypatch):
    (tmp_path / "multirc" / "docs").mkdir(parents=True)
    (tmp_path / "multirc" / "docs" / "d").write_text("it rained . they stayed .")
    evidence = [[{"docid": "d", "start_token": 0, "end_token": 3}]]
    row = {"annotation_id": "1", "classification": "True", "evidences": evidence, "query": "Rain? || yes"}
    put(tmp_path / "multirc", "val", [row])
    monkeypatch.setenv("TROTH_DATA", str(tmp_path))
    example = load_data("multirc")[0]
    assert (example.label, example.text_pair, example.rationale) == (1, "Rain? || yes", ((0, 11),))


def test_a_missing_split_falls_back_on_the_hub_and_says_so(tmp_path, monkeypatch):
    put(tmp_path / "boolq", "validation", [{"text": "a", "text_pair": "b", "label": 1}])
    monkeypatch.setenv("TROTH_DATA", str(tmp_path))
    assert len(load_data("boolq")) == 1
    with pytest.raises(NoSplitError, match=r"boolq: \$TROTH_DATA/boolq has no train split; google/boolq cannot"):
        load_data("boolq", split="train")
    with pytest.raises(NoSplitError, match="boolq: no split is called 'test'"):
        load_data("boolq", split="test")


def test_the_hub_is_asked_in_its_own_words(monkeypatch):
    import datasets

    asked = []
    rows = {"premise": ["a", "b"], "hypothesis": ["c", "d"], "label": [2, 0], "idx": [10, 11]}

    def load_dataset(name, config, split, revision):
        asked.append((name, config, split))
        return datasets.Dataset.from_dict(rows)

    monkeypatch.delenv("TROTH_DATA", raising=False)
    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda *_, **__: ["train", "validation_matched"])
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    data = load_data("mnli")
    assert asked == [("nyu-mll/glue", "mnli", "validation_matched")]
    assert [(example.id, example.text, example.text_pair, example.label) for example in data] == [
        ("10", "a", "c", 2),
        ("11", "b", "d", 0),
    ]
    assert data.split == "validation"


# Rows of the files as they were collected; some train sets are partial there.
ROWS = {
    "sst": {"train": 6920, "validation": 872, "test": 1821},
    "sst2": {"train": 67349, "validation": 872},
    "rotten_tomatoes": {"train": 8530, "validation": 1066, "test": 1066},
    "imdb": {"train": 25000, "test": 25000},
    "emotion": {"train": 16000, "validation": 2000, "test": 2000},
    "ag_news": {"train": 16272, "test": 7600},
    "eraser_movies": {"train": 1600, "validation": 200, "test": 199},
    "semeval2017_4a": {"train": 49570, "test": 12284},
    "babi1": {"train": 10000, "test": 1000},
    "babi2": {"train": 10000, "test": 1000},
    "babi3": {"train": 1000, "test": 1000, "train_synthetic": 9000},
    "cola": {"train": 8551, "validation": 1043},
    "mrpc": {"train": 3668, "validation": 408, "test": 1725},
    "rte": {"train": 2490, "validation": 277},
    "boolq": {"validation": 3270},
    "multirc_superglue": {"train": 27243, "validation": 4848},
}


@pytest.mark.data
@pytest.mark.parametrize("name", ROWS)
def test_the_real_files_load_in_full(name):
    if not Path(os.environ.get("TROTH_DATA", "missing"), name).is_dir():
        pytest.skip("TROTH_DATA has no such folder")
    entry = catalog.build("data", name)
    for split, count in ROWS[name].items():
        data = load_data(name, split=split)
        assert len(data) == count
        assert {example.label for example in data} == set(range(len(entry.labels)))
        assert all((example.text_pair is not None) == bool(entry.auxiliary) for example in data)
        partial = split in entry.splits and entry.splits[split] not in (None, count)
        assert any("the official one" in note for note in data.notes) == partial


@pytest.mark.data
def test_the_film_reviews_of_eraser_have_their_evidence_at_its_place():
    folder = Path(os.environ.get("TROTH_DATA", "missing"), "eraser_movies")
    if not folder.is_dir():
        pytest.skip("TROTH_DATA has no such folder")
    lines = gzip.decompress((folder / "test.jsonl.gz").read_bytes()).decode().splitlines()
    rows = [json.loads(line) for line in lines]
    for row, example in zip(rows, load_data("eraser_movies", split="test"), strict=True):
        marked = [" ".join(example.text[start:end].split()) for start, end in example.rationale]
        for piece in (piece for group in row["rationales"] for piece in group):
            assert any(piece["text"] in text for text in marked)
        covered = {token for g in row["rationales"] for p in g for token in range(p["start_token"], p["end_token"])}
        assert sum(len(text.split()) for text in marked) == len(covered)
