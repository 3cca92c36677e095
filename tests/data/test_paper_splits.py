"""Splits that a paper made of a data set, asked for by the paper's name."""

import json
import os
from pathlib import Path

import pytest

from troth.core import catalog
from troth.core.errors import TrothError
from troth.data import load_data
from troth.training.examples import load_labeled


def put(folder, split, rows):
    folder.mkdir(exist_ok=True)
    (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(autouse=True)
def own_data(tmp_path, monkeypatch, request):
    if request.node.get_closest_marker("data") is None:
        monkeypatch.setenv("TROTH_DATA", str(tmp_path))


def test_ag_news_holds_out_fifteen_of_a_hundred(tmp_path):
    put(tmp_path / "ag_news", "train", [{"text": f"item {number}", "label": number % 4} for number in range(40)])
    put(tmp_path / "ag_news", "test", [{"text": "another", "label": 0}])
    whole = load_data("ag_news", split="train")
    training, validation = (load_data("ag_news(as_in=saloss)", split=split) for split in ("train", "validation"))
    assert (len(training), len(validation)) == (34, 6)
    assert sorted(example.text for example in (*training, *validation)) == sorted(example.text for example in whole)
    assert training.notes == ("train here has 34 rows, the paper's 102,000",)
    assert (training.name, training.split, validation.split) == ("ag_news(as_in='saloss')", "train", "validation")
    assert load_data("ag_news(as_in=soft)").fingerprint == validation.fingerprint
    assert catalog.build("data", "ag_news").split_names == ("train", "test")


def test_training_asks_for_the_same_examples_by_share_or_by_paper(tmp_path):
    rows = [{"text": f"item {number}", "label": number % 4} for number in range(40)]
    put(tmp_path / "ag_news", "train", rows)
    put(tmp_path / "ag_news", "test", rows[:4])
    by_share, by_paper = load_labeled("ag_news", hold_out=0.15), load_labeled("ag_news(as_in=soft)", tests=("test",))
    assert by_share.training.fingerprint == by_paper.training.fingerprint
    assert by_share.validation.fingerprint == by_paper.validation.fingerprint
    assert by_paper.name == "ag_news"  # so that a paper's settings for it are found


def test_babi_validates_on_a_share_of_its_training_stories(tmp_path):
    story = {"text": "Mary went to the office.", "text_pair": "Where is Mary?", "supporting": [0]}
    put(tmp_path / "babi2", "train", [{**story, "label": number % 6, "id": number} for number in range(100)])
    put(tmp_path / "babi2", "test", [{**story, "label": 5}])
    splits = [load_data("babi2(as_in=roar)", split=split) for split in ("train", "validation", "test")]
    assert [len(split) for split in splits] == [85, 15, 1]
    assert not {example.id for example in splits[0]} & {example.id for example in splits[1]}


def test_sst_without_short_sentences_and_signs(tmp_path):
    texts = ["a film , no more .", "it does n't work -- at all !"]
    for split in ("train", "validation", "test"):
        put(tmp_path / "sst", split, [{"text": text, "label": 0} for text in texts])
    data = load_data("sst(as_in=roar)", split="test")
    assert [example.text for example in data] == ["a film no more", "it does n t work at all"]
    put(tmp_path / "sst", "test", [{"text": "five tokens are too few", "label": 0}, {"text": texts[1], "label": 1}])
    assert [example.label for example in load_data("sst(as_in=roar)", split="test")] == [1]
    assert len(load_data("sst", split="test")) == 2


def test_imdb_without_long_reviews_and_signs(tmp_path):
    reviews = [f"It's number {number}: good, <br />really -- good!" for number in range(10)]
    texts = [*reviews, "too short", "long " * 400]
    for split in ("train", "test"):
        put(tmp_path / "imdb", split, [{"text": text, "label": 1} for text in texts])
    splits = {split: load_data("imdb(as_in=roar)", split=split) for split in ("train", "validation", "test")}
    assert [len(data) for data in splits.values()] == [8, 2, 2]
    found = sorted(example.text for data in (splits["train"], splits["validation"]) for example in data)
    assert found == [f"it's number {number} good br really good" for number in range(10)]
    assert load_data("imdb(as_in=roar)", split="train", limit=3).name == "imdb(as_in='roar')"


def test_semeval_by_the_files_of_2016(tmp_path):
    files = ("2013train-A", "2016train-A", "2016dev-A", "2016devtest-A", "2016test-A")
    put(tmp_path / "semeval2017_4a", "train", [{"text": file, "label": 1, "source": file} for file in files])
    put(tmp_path / "semeval2017_4a", "test", [{"text": "of 2017", "label": 1}])
    splits = {
        split: load_data("semeval2017_4a(as_in=saloss)", split=split) for split in ("train", "validation", "test")
    }
    assert {split: [example.text for example in data] for split, data in splits.items()} == {
        "train": ["2016train-A"],
        "validation": ["2016dev-A"],
        "test": ["2016test-A"],
    }
    assert splits["test"].notes == ("test here has 1 rows, the paper's 20,630",)
    assert load_data("semeval2017_4a", split="test")[0].text == "of 2017"


def test_semeval_without_the_column_that_tells_the_files_apart(tmp_path):
    put(tmp_path / "semeval2017_4a", "train", [{"text": "a", "label": 1}])
    with pytest.raises(TrothError, match=r"no row of train\.jsonl has the source 2016dev-A"):
        load_data("semeval2017_4a(as_in=saloss)", split="validation")


def test_evidence_inference_reads_abstracts_only(tmp_path):
    folder = tmp_path / "evidence_inference"
    (folder / "docs").mkdir(parents=True)
    article = (
        "TITLE : A trial . ABSTRACT.RESULTS : : Pain fell . BODY.METHODS : : We asked . BODY.RESULTS : : It fell ."
    )
    (folder / "docs" / "one").write_text(article)
    tokens = article.split()

    def row(id, *sentences):
        starts = [tokens.index(sentence.split()[0]) for sentence in sentences]
        pieces = [
            {"docid": "one", "start_token": start, "end_token": start + len(sentence.split())}
            for start, sentence in zip(starts, sentences, strict=True)
        ]
        query = f"What did {id} do?"
        about = {"annotation_id": id, "classification": "significantly decreased", "query": query, "docids": ["one"]}
        return {**about, "evidences": [[piece] for piece in pieces]}

    put(folder, "train", [row("both", "Pain fell", "It fell"), row("body", "It fell"), row("abstract", "Pain fell")])
    assert [example.text for example in load_data("evidence_inference", split="train")] == [article] * 3
    data = load_data("evidence_inference(as_in=soft)", split="train")
    assert [example.id for example in data] == ["both", "abstract"]
    assert {example.text for example in data} == {"TITLE : A trial . ABSTRACT.RESULTS : : Pain fell ."}
    for example in data:
        assert [example.text[start:end] for start, end in example.rationale] == ["Pain fell"]
    assert data.notes == ("train here has 2 rows, the paper's 5,789",)
    put(folder, "train", [row("body", "It fell")])
    with pytest.raises(TrothError, match=r"no question of train\.jsonl has its evidence in an abstract"):
        load_data("evidence_inference(as_in=saloss)", split="train")


def test_a_paper_without_splits_of_its_own_is_refused():
    with pytest.raises(TrothError, match="as_in"):
        load_data("ag_news(as_in=roar)")


REAL = {
    "ag_news(as_in=soft)": (13_831, 2_441, 7_600),  # of the 16,272 that could be had
    "babi1(as_in=roar)": (8_500, 1_500, 1_000),
    "babi2(as_in=roar)": (8_500, 1_500, 1_000),
    "imdb(as_in=roar)": (17_213, 4_303, 4_346),  # one row is rounded otherwise; the paper has 16 more to test on
    "sst(as_in=roar)": (6_579, 848, 1_776),
    "semeval2017_4a(as_in=saloss)": (5_975, 1_987, 20_481),
}


@pytest.mark.data
@pytest.mark.parametrize("spec", REAL)
def test_the_real_files(spec):
    if not Path(os.environ.get("TROTH_DATA", "missing"), spec.partition("(")[0]).is_dir():
        pytest.skip("TROTH_DATA has no such folder")
    assert tuple(len(load_data(spec, split=split)) for split in ("train", "validation", "test")) == REAL[spec]
