"""Files that break readers: each ends in one clear line, or is read rightly and what was done is said."""

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from troth import Example
from troth.core.errors import TrothError
from troth.data import load_data

DEEP = "[" * 100_000
NESTED = "[" * 900 + "1" + "]" * 900


def fails(source, **options):
    with pytest.raises(TrothError) as caught:
        load_data(source, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message.encode()) < 300  # a line, which a terminal can show
    return message


# file, its content, options of load_data, what the one line says
BROKEN = [
    ("a.jsonl", '{"text": "a", "label": %s}' % ("9" * 5000), {}, "line 1 contains an integer with more digits than"),
    ("a.json", '[{"text": "a", "label": %s}]' % ("9" * 5000), {}, "a.json contains an integer with more digits than"),
    (
        "a.jsonl",
        '{"text": "a", "label": %s}' % ("9" * 400),
        {},
        f"label {'9' * 40}, which is too large for the number of a",
    ),
    (
        "a.csv",
        f"text,label\na,{'9' * 5000}\n",
        {},
        f"row 1 has the label {'9' * 40}, which is too large for the number",
    ),
    ("a.jsonl", '{"text": "a", "label": 1099511627776}', {}, "row 1 has the label 1099511627776, which is too large"),
    (
        "a.jsonl",
        '{"text": "a", "label": 1e400}',
        {},
        "row 1 has the label inf, which is too large for the number of a class",
    ),
    ("a.jsonl", '{"text": "a", "label": -1e400}', {}, "row 1 has the label -inf; classes count from 0"),
    ("a.jsonl", DEEP, {}, "a.jsonl: line 1 is nested too deeply"),
    ("a.json", DEEP, {}, "a.json is nested too deeply"),
    ("a.jsonl", f'{{"text": "a", "label": {NESTED}}}', {}, "nested too deeply"),
    ("a.jsonl", f'{{"text": "a", "question": {NESTED}}}', {}, "nested too deeply"),
    ("a.jsonl", json.dumps({"text": "a", "rationale": DEEP}), {"rationale": "rationale"}, "the rationale is text, not"),
    ("a.jsonl", r'{"text": "a", "id": "x\ud800"}', {"id": "id"}, "column 'id' cannot be used as the id"),
    ("a.jsonl", r'{"text": "a", "label": "x\ud800"}', {}, r"row 1 has the label 'x\ud800', which is not valid Unicode"),
    ("a.jsonl", r'{"te\ud800xt": "a"}', {}, r"has no text column; columns: te\ud800xt;"),
    ("a.csv", "text,label\na,NaN\nb,1\n", {}, "row 1 has no label; drop it or pass --unlabelled"),
    (
        "a.jsonl",
        '{"text": "a", "rationale": [{"start_token": null, "end_token": 1}, {"start_token": 0, "end_token": 1}]}',
        {"rationale": "rationale"},
        "start_token and end_token of the rationale must be whole numbers",
    ),
    ("s/dataset_dict.json", "{}", {}, "(dataset_dict.json lists no splits)"),
    ("s/dataset_dict.json", "nope", {}, "(dataset_dict.json: Expecting value"),
    ("s/state.json", "[]", {}, "(state.json is not a JSON object)"),
]


@pytest.mark.parametrize(("name", "content", "options", "expected"), BROKEN)
def test_a_broken_file_is_one_clear_line(tmp_path, monkeypatch, name, content, options, expected):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    assert expected in fails(path if path.parent == tmp_path else path.parent, **options)


# an annotation of a folder in the ERASER layout, what the one line says
ANNOTATIONS = [
    ({"evidences": 3}, "row 1: evidences must be groups of pieces with docid, start_token and end_token, not 3"),
    ({"evidences": [[3]]}, "row 1: evidences must be groups of pieces"),
    ({"evidences": [[{"docid": "d"}]]}, "row 1: evidences must be groups of pieces"),
    ({"evidences": [[{"docid": "d", "start_token": "a", "end_token": 1}]]}, "row 1: evidences must be groups"),
    (
        {"docids": ["d"], "evidences": [[{"docid": "e", "start_token": 0, "end_token": 1}]]},
        "row 1 has evidence in 'e', which is not among its docids",
    ),
    ({"docids": 3}, "row 1: docids and annotation_id must be strings, not 3"),
    ({"annotation_id": ["d"]}, "row 1: docids and annotation_id must be strings"),
    ({"annotation_id": "../secret"}, "row 1 names the document '../secret', which is not in docs"),
]


@pytest.mark.parametrize(("changes", "expected"), ANNOTATIONS)
def test_a_broken_eraser_annotation_is_one_clear_line(tmp_path, changes, expected):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "d").write_text("a b c")
    (tmp_path / "secret").write_text("not a document")
    (tmp_path / "val.jsonl").write_text(json.dumps({"annotation_id": "d", "classification": "x", **changes}))
    assert expected in fails(tmp_path)


@pytest.mark.parametrize("row", [{"x": 1}, {"docid": ["x"], "document": "y"}, {"docid": "d", "document": 3}])
def test_a_broken_eraser_document_is_one_clear_line(tmp_path, row):
    (tmp_path / "docs.jsonl").write_text(json.dumps(row))
    (tmp_path / "val.jsonl").write_text('{"annotation_id": "d", "classification": "x"}')
    assert fails(tmp_path) == "docs.jsonl: row 1 is not an ERASER document: it needs docid and document"


def parquet(path, table):
    pq.write_table(table, path)
    return path


FOREIGN = [
    b"not json", b"[]", b"null", b'{"info": null}', b'{"info": {"features": [1]}}', b"\xff\xfe", DEEP.encode(),
    b'{"info": {"features": {"label": 3}}}', b'{"info": {"features": {"label": {"names": 7}}}}',
    b'{"info": {"features": {"label": {"names": [["a"], "b"]}}}}',
]  # fmt: skip


@pytest.mark.parametrize("metadata", FOREIGN)
def test_foreign_parquet_metadata_is_left_out_and_that_is_said(tmp_path, metadata):
    table = pa.table({"text": ["a", "b"], "label": [1, 0]}).replace_schema_metadata({b"huggingface": metadata})
    data = load_data(parquet(tmp_path / "a.parquet", table))
    assert [(example.text, example.label) for example in data] == [("a", 1), ("b", 0)]
    assert data.labels == ()
    assert "class names: none; the file's metadata is not as `datasets` writes it" in data.notes


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"text": pa.array([b"\xff"], pa.binary()).view(pa.string())}, "a.parquet cannot be read as parquet ('utf-8'"),
        ({"text": ["a"], "at": pa.array([2**62], pa.timestamp("us"))}, "cannot be read as parquet (date value out of"),
        (
            {"text": ["a"], "label": pa.array([2**63], pa.uint64())},
            "row 1 has the label 9223372036854775808",
        ),
    ],
)
def test_parquet_values_that_python_cannot_hold(tmp_path, table, expected):
    assert expected in fails(parquet(tmp_path / "a.parquet", pa.table(table)))


def test_an_id_that_is_not_unicode_gives_way_to_the_rows_place(tmp_path):
    (tmp_path / "a.jsonl").write_text(r'{"text": "a", "id": "x\ud800"}')
    data = load_data(tmp_path / "a.jsonl")
    assert data[0].id == "0"
    assert "id: the row's place; column 'id' does not tell rows apart" in data.notes
    with pytest.raises(TrothError, match=r"example 'x\\ud800': the id is not valid Unicode"):
        Example("x\ud800", "a")


@pytest.mark.parametrize("written", ["NaN", "nan", " NAN "])
def test_nan_is_a_missing_label_and_no_class(tmp_path, written):
    (tmp_path / "a.csv").write_text(f"text,label\na,{written}\nb,pos\nc,neg\n")
    data = load_data(tmp_path / "a.csv", unlabelled=True)
    assert [example.label for example in data] == [None, 1, 0]
    assert data.labels == ("neg", "pos")


def test_a_huge_cell_is_cut_early_and_that_is_said(tmp_path):
    rows = [
        {"text": "word " * 2_000_000, "label": 0, "rationale": [[0, 4], [499_990, 500_010], [600_000, 600_004]]},
        {"text": "word", "label": 1, "rationale": []},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = load_data(tmp_path / "a.jsonl")
    assert [len(example.text) for example in data] == [500_000, 4]
    assert data[0].rationale == ((0, 4), (499_990, 500_000))
    assert "1 text is cut to the first 500,000 characters; the longest has 10,000,000" in data.notes


def test_a_text_of_the_longest_length_stays_whole(tmp_path):
    (tmp_path / "a.csv").write_text(f"text,label\n{'x' * 500_000},1\n")
    data = load_data(tmp_path / "a.csv")
    assert len(data[0].text) == 500_000
    assert not any("cut to" in note for note in data.notes)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(tmp_path):
    (tmp_path / "a.csv").write_text("text\na\n")
    (tmp_path / "a.csv").chmod(0)
    assert fails(tmp_path / "a.csv").endswith("Permission denied")
