import json

import pytest

from troth import Example
from troth.core.errors import TrothError
from troth.data import Data, load_data
from troth.data.reviews import Reviews


def fails(source, **options):
    with pytest.raises(TrothError) as caught:
        load_data(source, **options)
    return str(caught.value)


def test_texts_pairs_and_examples_from_memory():
    own = Example(id="mine", text="c", label=1)
    data = load_data(["a", ("b", "and b"), own])
    assert list(data) == [Example("0", "a"), Example("1", "b", "and b"), own]
    assert list(load_data(("b", "and b"))) == [Example("0", "b", "and b")]
    assert list(load_data(text for text in ("a", "b"))) == [Example("0", "a"), Example("1", "b")]
    assert list(load_data([{"sentence": "a", "label": 1}])) == [Example("0", "a", label=1)]
    assert list(load_data(data)) == list(data)


def test_what_is_no_example():
    assert fails(["a", 3]) == "item 1 is int; give an Example, a text or a pair (text, text_pair)"
    assert fails(3).startswith("data must be a name, a path, a list of texts or Examples, a DataFrame")
    assert fails(["a", Example("0", "b")]) == "two examples have the id '0'; ids must be unique"


def test_names_of_the_catalog():
    assert load_data("reviews").name == "reviews"
    assert load_data("reviews(domain=film)").name == "reviews(domain='film')"
    assert load_data(Reviews(trait="irony")).fingerprint == load_data("reviews(trait=irony)").fingerprint
    assert "no data set is called 'revews'; did you mean reviews?" in fails("revews")
    assert fails("reviews", split="train") == "reviews: no split is called 'train'; there are: test"
    assert fails("reviews", text="body").startswith("reviews has fixed columns and classes;")


def test_a_bare_word_is_the_catalog_before_it_is_a_folder(tmp_path, monkeypatch):
    for name in ("reviews", "mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test.jsonl").write_text('{"text": "from the folder"}\n')
    monkeypatch.chdir(tmp_path)
    assert len(load_data("reviews")) > 1
    assert load_data("./reviews")[0].text == load_data("mine")[0].text == "from the folder"


def test_limit_takes_the_first_rows_and_warns_of_a_sorted_file(tmp_path):
    path = tmp_path / "films.jsonl"
    path.write_text("".join(json.dumps({"text": str(n), "label": int(n >= 5)}) + "\n" for n in range(10)))
    assert [example.text for example in load_data(path, limit=3)] == ["0", "1", "2"]
    notes = load_data(path, limit=3).notes
    assert notes[-2] == "the first 3 of 10 examples"
    assert notes[-1] == "the first 3 examples are all of one class: the file seems sorted"
    assert load_data(path, limit=6).notes[-1] == "the first 6 of 10 examples"
    assert len(load_data(path, limit=99)) == 10
    assert fails(path, limit=0) == "limit must be at least 1, not 0"


def test_limit_shuffles_an_entry_that_is_sorted_by_class(tmp_path, monkeypatch):
    (tmp_path / "imdb").mkdir()
    rows = [{"text": str(n), "label": int(n >= 50)} for n in range(100)]
    (tmp_path / "imdb" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setenv("TROTH_DATA", str(tmp_path))
    few, more = load_data("imdb", limit=20), load_data("imdb", limit=40)
    assert list(few) == list(more)[:20]
    assert 5 <= sum(example.label for example in few) <= 15
    assert "drawn with seed 0: 20 of 100 examples" in few.notes
    assert [example.text for example in load_data("imdb")] == [str(n) for n in range(100)]


def test_data_is_a_sequence_with_a_fingerprint():
    examples = [Example("a", "x", label=0), Example("b", "y", label=1)]
    data = Data("mine", examples, ("no", "yes"))
    assert (len(data), data[1], list(data[:1])) == (2, examples[1], examples[:1])
    assert isinstance(data[:1], Data)
    assert data.fingerprint == Data("other name", tuple(examples)).fingerprint
    changed = [
        [Example("a", "x", label=1), examples[1]],
        [Example("a", "x", rationale=[(0, 1)], label=0), examples[1]],
        [Example("a", "x", "", 0), examples[1]],
        examples[::-1],
    ]
    assert len({data.fingerprint, *(Data("mine", other).fingerprint for other in changed)}) == 5
    assert sorted(example.id for example in data.limit(2, seed=3)) == ["a", "b"]


def test_the_reviews_are_balanced_and_their_rationales_lie_in_the_text():
    data = load_data("reviews")
    assert data.labels == ("negative", "positive")
    assert sum(example.label for example in data) * 2 == len(data) >= 240
    assert len({example.id for example in data}) == len(data)
    for example in data:
        assert "[[" not in example.text
        assert "]]" not in example.text
        assert example.rationale
        assert all(example.text[start:end].strip() for start, end in example.rationale)
    domains = [len(load_data(f"reviews(domain={domain})")) for domain in ("film", "book", "restaurant", "gadget")]
    assert sum(domains) == len(data)
