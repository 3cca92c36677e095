"""What people have in memory is read as they mean it by every verb; anything else is one line, never its keys."""

import sys

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import troth

TEXTS = ["Best soup in town.", "Cold, slow and loud."]
FULL = {"id": ["a", "b"], "text": TEXTS, "text_pair": ["Good?", "Bad?"], "label": [1, 0]}
PLAIN = [("0", TEXTS[0], None, None), ("1", TEXTS[1], None, None)]
WHOLE = [("a", TEXTS[0], "Good?", 1), ("b", TEXTS[1], "Bad?", 0)]
ROWS = [dict(zip(FULL, row, strict=True)) for row in zip(*FULL.values(), strict=True)]
RATED = {"review": TEXTS, "sentiment": ["positive", "negative"]}  # found by their usual names

READ = {
    "a DataFrame": (pd.DataFrame(FULL), WHOLE),
    "a DataFrame that was filtered": (pd.DataFrame(FULL)[["text"]].iloc[[1]], [("0", *PLAIN[1][1:])]),
    "a DataFrame of the nullable types": (pd.DataFrame(FULL).convert_dtypes(), WHOLE),
    "a DataFrame of other names": (pd.DataFrame(RATED), [("0", TEXTS[0], None, 1), ("1", TEXTS[1], None, 0)]),
    "a DataFrame with rationales": (pd.DataFrame({"text": TEXTS, "rationale": [[[0, 4]], [[0, 4]]]}), PLAIN),
    "a Series": (pd.Series(TEXTS, index=[7, 9]), PLAIN),
    "an Index": (pd.Index(TEXTS), PLAIN),
    "a dict of lists": (FULL, WHOLE),
    "a dict of arrays": ({name: np.array(values) for name, values in FULL.items()}, WHOLE),
    "a dict of Series": ({"text": pd.Series(TEXTS)}, PLAIN),
    "an array": (np.array(TEXTS), PLAIN),
    "an array of objects": (np.array(TEXTS, dtype=object), PLAIN),
    "a pyarrow Table": (pa.table(FULL), WHOLE),
    "a pyarrow array": (pa.array(TEXTS), PLAIN),
    "a Dataset": (datasets.Dataset.from_dict(FULL), WHOLE),
    "a column of a Dataset": (datasets.Dataset.from_dict(FULL)["text"], PLAIN),
    "a DatasetDict": (datasets.DatasetDict(test=datasets.Dataset.from_dict(FULL)), WHOLE),
    "rows": (ROWS, WHOLE),
    "texts": (TEXTS, PLAIN),
    "a tuple of three": ((*TEXTS, "More."), [*PLAIN, ("2", "More.", None, None)]),
    "pairs": ([(TEXTS[0], "Good?")], [("0", TEXTS[0], "Good?", None)]),
    "Examples": ([troth.Example("a", TEXTS[0], "Good?", 1)], WHOLE[:1]),
}  # fmt: skip

REFUSED = {
    "a dict of texts": ({"a": TEXTS[0]}, "this dict has no list under 'a'; give a dict of lists"),
    "one row": (ROWS[0], "this dict has no list under 'id'; give a dict of lists"),
    "a dict of unequal lists": ({"text": TEXTS, "label": [1]}, "2 values under 'text' and 1 under 'label'"),
    "an empty dict": ({}, "this dict is empty; give a dict of lists"),
    "an empty DataFrame": (pd.DataFrame({"text": []}), "this DataFrame contains no rows"),
    "a DataFrame without texts": (pd.DataFrame({"a": [1]}), "this DataFrame has no text column; columns: a; name it"),
    "two columns of one name": (pd.DataFrame([["x", "y"]], columns=["text", "text"]), "this DataFrame has two columns"),
    "a missing text": (pd.DataFrame({"text": [TEXTS[0], None]}), "row 2 has no text (no text); drop it"),
    "a NaN": (pd.DataFrame({"text": [np.nan, *TEXTS]}, dtype=object), "this DataFrame: row 1 has no text (no text)"),
    "a missing text in a Series": (pd.Series([TEXTS[0], None]), "item 1 has no text (nan); drop it"),
    "a missing text in a list": ([TEXTS[0], None], "item 1 has no text (None); drop it"),
    "numbers in a column": ({"text": [1, 2]}, "this dict: row 1 has no text (text is int); drop it"),
    "an array of numbers": (np.arange(2), "item 0 is int; give an Example, a text or a pair"),
    "an array of two dimensions": (np.array([TEXTS]), "not ndarray of 2 dimensions"),
    "a set": (set(TEXTS), "not set"),
    "bytes": (b"Best soup", "not bytes"),
    "texts as bytes": ([b"Best soup"], "item 0 is bytes; give an Example, a text or a pair"),
    "a generator of numbers": ((number for number in (1, 2)), "item 0 is int; give an Example"),
    "a number": (3.5, "not 3.5 (float)"),
    "nothing": (None, "not None (NoneType)"),
}  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return troth.load_model("embedded")


def plain(examples):
    return [(example.id, example.text, example.text_pair, example.label) for example in examples]


@pytest.mark.parametrize("name", READ)
def test_what_is_read(name, model):
    source, expected = READ[name]
    assert plain(troth.load_data(source)) == expected
    explained = troth.explain(model, source, "random", progress=False)
    assert plain(attribution.example for attribution in explained) == expected


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("verb", ["load_data", "explain", "bench"])
def test_what_is_refused(name, verb, model, tmp_path):
    source, message = REFUSED[name]
    if name == "a generator of numbers":
        source = iter([1, 2])
    call = {
        "load_data": lambda: troth.load_data(source),
        "explain": lambda: troth.explain(model, source, "random", progress=False),
        "bench": lambda: troth.bench(model, source, ["random"], ["sparsity"], tmp_path / "run", progress=False),
    }[verb]
    with pytest.raises(troth.TrothError) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_bench_reads_a_data_frame(tmp_path):
    result = troth.bench("embedded", pd.DataFrame(FULL), ["random"], ["sparsity"], tmp_path / "run", progress=False)
    assert result.leaderboard.title == "embedded on 2 examples of this DataFrame"


def test_labels_of_a_data_frame_are_matched_by_name(model):
    frame = pd.DataFrame({"text": TEXTS, "label": ["Positive", "negative"]})
    explained = troth.explain(model, frame, "random", target="gold", progress=False)
    assert [attribution.labels[attribution.target] for attribution in explained] == ["positive", "negative"]
    missing = pd.DataFrame({"text": TEXTS, "label": [1, None]})
    with pytest.raises(troth.TrothError, match="row 2 has no label"):
        troth.load_data(missing)
    assert [example.label for example in troth.load_data(missing, unlabelled=True)] == [1, None]


def test_columns_can_be_named():
    frame = pd.DataFrame({"body": TEXTS, "page": ["x", "x"]})
    data = troth.load_data(frame, text="body", group="page")
    assert [(example.text, example.group) for example in data] == [(TEXTS[0], "x"), (TEXTS[1], "x")]
    for source, message in [
        (TEXTS, "a list of texts has no column 'page'; give rows, or Example(group=…)"),
        (frame.assign(page=["x", None]), "this DataFrame: row 2 has no page (--group); fill it in or drop the row"),
        (frame[["body"]], "this DataFrame has no column 'page' (--group); columns: body"),
    ]:
        with pytest.raises(troth.TrothError) as caught:
            troth.load_data(source, text="body", group="page")
        assert str(caught.value) == message


def test_texts_may_still_come_one_by_one(model):
    texts = (text for text in TEXTS)
    assert len(troth.explain(model, texts, "random", progress=False)) == 2


def test_reading_lists_imports_no_library_of_tables(monkeypatch):
    for name in ("pandas", "pyarrow", "datasets", "polars"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it raises
    assert plain(troth.load_data(TEXTS)) == plain(troth.load_data({"text": TEXTS})) == PLAIN
