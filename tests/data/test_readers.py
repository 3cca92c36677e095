import gzip
import json

import pytest

from troth.core.errors import TrothError
from troth.data import load_data


def fails(source, **options):
    with pytest.raises(TrothError) as caught:
        load_data(source, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write(path, content, encoding="utf-8"):
    path.write_bytes(content.encode(encoding))
    return path


CSV = 'text,label\n"good, really",1\n"he said ""no""",0\n,1\n'
EXPECTED = [("good, really", 1), ('he said "no"', 0), ("", 1)]


def pairs(data):
    return [(example.text, example.label) for example in data]


def test_csv_keeps_quotes_commas_and_empty_text(tmp_path):
    assert pairs(load_data(write(tmp_path / "films.csv", CSV))) == EXPECTED


def test_csv_with_byte_order_mark_windows_line_ends_and_a_line_break_in_a_text(tmp_path):
    data = load_data(write(tmp_path / "films.csv", '\ufefftext,label\r\n"two\nlines",1\r\n'))
    assert pairs(data) == [("two\nlines", 1)]


def test_csv_cut_by_semicolons_is_read_and_said(tmp_path):
    data = load_data(write(tmp_path / "films.csv", "text;label\ngood, really;1\n"))
    assert pairs(data) == [("good, really", 1)]
    assert "columns: cut by semicolons" in data.notes


def test_a_very_long_csv_field_is_read(tmp_path):
    assert len(load_data(write(tmp_path / "films.csv", f"text,label\n{'word ' * 40_000},1\n"))[0].text) == 200_000


def test_tsv_takes_quotes_as_they_are(tmp_path):
    data = load_data(write(tmp_path / "films.tsv", 'sentence\tlabel\n"unbalanced\t1\nsaid "no"\t0\n'))
    assert pairs(data) == [('"unbalanced', 1), ('said "no"', 0)]


def rows():
    return [{"text": "good\u2028film", "label": 1}, {"text": "", "label": 0}]


@pytest.mark.parametrize("name", ["films.jsonl", "films.jsonl.gz", "films.json", "lines.json", "wrapped.json"])
def test_json_forms(tmp_path, name):
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows()) + "\n\n"
    whole = {"films.json": rows(), "wrapped.json": {"version": 1, "data": rows()}}
    content = json.dumps(whole[name]) if name in whole else lines
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith("gz") else content.encode())
    assert pairs(load_data(path)) == [("good\u2028film", 1), ("", 0)]
    assert pairs(load_data(str(path))) == [("good\u2028film", 1), ("", 0)]


def test_parquet_with_the_class_names_that_datasets_writes(tmp_path):
    import datasets

    classes = datasets.ClassLabel(names=["bad", "good"])
    features = datasets.Features({"review": datasets.Value("string"), "label": classes})
    saved = datasets.Dataset.from_dict({"review": ["a", "b"], "label": [1, 0]}, features=features)
    saved.to_parquet(str(tmp_path / "films.parquet"))
    data = load_data(tmp_path / "films.parquet")
    assert pairs(data) == [("a", 1), ("b", 0)]
    assert data.labels == ("bad", "good")


def test_plain_parquet(tmp_path):
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"text": ["a", "b"], "label": [1.0, 0.0]})
    pyarrow.parquet.write_table(table, tmp_path / "films.parquet")
    assert pairs(load_data(tmp_path / "films.parquet")) == [("a", 1), ("b", 0)]


def test_missing_file_and_unknown_format(tmp_path):
    assert fails(tmp_path / "none.csv") == f"{tmp_path / 'none.csv'}: no such file or folder"
    assert fails(tmp_path / "no" / "such" / "folder").endswith("no such file or folder")
    assert fails("what a film") == "what a film: no such file or folder"
    expected = f"{tmp_path}/films.docx: cannot read this kind of file; give one of jsonl, json, csv, tsv, parquet"
    assert fails(write(tmp_path / "films.docx", "x")) == expected


def test_a_folder_named_like_a_file_is_refused_with_its_name(tmp_path):
    (tmp_path / "empty").mkdir()
    assert fails(tmp_path / "empty").startswith(f"{tmp_path / 'empty'} contains no data:")


def test_empty_files(tmp_path):
    for name, content in {"a.csv": "", "b.csv": "text,label\n", "c.jsonl": "\n", "d.json": "[]"}.items():
        assert fails(write(tmp_path / name, content)) == f"{name} contains no rows"


def test_bad_json_names_file_and_line(tmp_path):
    path = write(tmp_path / "films.jsonl", '{"text": "a", "label": 1}\n\n{"text": \n')
    assert fails(path) == "films.jsonl: line 3 is not JSON (Expecting value)"
    assert fails(write(tmp_path / "list.jsonl", "[1]\n")) == "list.jsonl: line 1 is not a JSON object but list"
    assert fails(write(tmp_path / "films.json", '[\n{"text": }]')) == "films.json: line 2 is not JSON (Expecting value)"
    assert (
        fails(write(tmp_path / "two.json", '{"a": [], "b": []}')) == "two.json: expected a list of objects, one per row"
    )


def test_not_utf8_names_file_and_line(tmp_path):
    path = write(tmp_path / "films.csv", "text,label\ngood,1\ncafé,1\n", encoding="latin-1")
    assert fails(path) == "films.csv: line 3 is not UTF-8; save the file as UTF-8"


def test_broken_gzip(tmp_path):
    write(tmp_path / "films.jsonl.gz", "not gzip")
    assert fails(tmp_path / "films.jsonl.gz") == "films.jsonl.gz is not a complete gzip file"
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}\n' * 50)[:-12])
    assert fails(tmp_path / "cut.jsonl.gz") == "cut.jsonl.gz is not a complete gzip file"


def test_broken_parquet(tmp_path):
    message = fails(write(tmp_path / "films.parquet", "no parquet at all"))
    assert message.startswith("films.parquet cannot be read as parquet (")


def test_csv_rows_of_the_wrong_width(tmp_path):
    path = write(tmp_path / "films.csv", "text,label\nfine,1\n\ngood, really,1\n")
    assert fails(path) == "films.csv: row 2 has 3 fields, but the header has 2; quote texts that hold the delimiter"
    short = write(tmp_path / "short.csv", "text,label\nfine\n")
    assert fails(short) == "short.csv: row 1 has 1 fields, but the header has 2"


def test_csv_with_a_quote_never_closed(tmp_path):
    path = write(tmp_path / "films.csv", 'text,label\n"open,1\nmore,0\n')
    assert fails(path) == "films.csv: line 3: unexpected end of data"


def test_a_single_file_has_no_splits(tmp_path):
    path = write(tmp_path / "films.csv", CSV)
    assert fails(path, split="test") == "films.csv is one file without splits, so it has no 'test'; leave --split out"
    assert len(load_data(write(tmp_path / "test.csv", CSV), split="test")) == 3
