"""Sets of labels in files: lists, words with | between them, a 0 or 1 per label."""

import json

import pytest

import troth
from labels import planted_labels
from troth.core.errors import TrothError
from troth.data._classes import match_labels


def load(tmp_path, *lines, name="mails.jsonl", **options):
    path = tmp_path / name
    rows = (
        lines
        if name.endswith(".csv")
        else [json.dumps({"text": f"text {place}", "label": line}) for place, line in enumerate(lines)]
    )
    path.write_text("\n".join(rows) + "\n")
    return troth.load_data(path, **options)


def test_lists(tmp_path):
    data = load(tmp_path, ["warm", "rude"], [], ["warm"], "rude")
    assert [example.label for example in data] == [(1, 0), (), (1,), (0,)]
    assert data.labels == ("rude", "warm")
    assert "labels: sets; 1 of 4 rows have none; 0 = rude, 1 = warm (words in sorted order)" in data.notes


def test_words_in_a_csv(tmp_path):
    data = load(tmp_path, "text,label", "a,warm|rude", "b,", "c, warm ", "d,rude | warm | rude", name="mails.csv")
    assert [example.label for example in data] == [(1, 0), (), (1,), (0, 1)]


def test_a_class_of_that_name_is_no_set(tmp_path):
    data = load(tmp_path, "a|b", "c", labels=["a|b", "c"])
    assert [example.label for example in data] == [0, 1]


def test_a_mark_for_each_label(tmp_path):
    data = load(tmp_path, [0, 1, 1], [0, 0, 0], [1, 0, 0], labels=["rude", "warm", "odd"])
    assert [example.label for example in data] == [(1, 2), (), (0,)]
    assert [example.label for example in load(tmp_path, [0, 1, 1], [0, 0, 0])] == [(1, 2), ()]
    numbers = load(tmp_path, [0, 1], [2, 0])  # plain numbers: no list says one twice
    assert [example.label for example in numbers] == [(0, 1), (2, 0)]


def test_matched_with_a_models_labels_and_stored(tmp_path):
    from troth.store.tables import examples_to_table, table_to_examples

    model = planted_labels()
    data = match_labels(load(tmp_path, ["Warm"], ["RUDE", "warm"], []), model.labels, model.name, model.outputs)
    assert [example.label for example in data] == [(1,), (0, 1), ()]
    back = table_to_examples(examples_to_table(data))
    assert [example.label for example in back] == [(1,), (0, 1), ()]
    assert json.loads(json.dumps([example.label for example in data])) == [[1], [0, 1], []]


def test_bad_sets_are_one_clear_line(tmp_path):
    with pytest.raises(
        TrothError, match=r"mails.jsonl: row 2 has the labels \[\['a'\]\]; a set may contain words and numbers"
    ):
        load(tmp_path, ["a"], [["a"]])
    with pytest.raises(
        TrothError, match=r"row 2 has no labels \(null\); write \[\] if no label applies, or pass --unlabelled"
    ):
        load(tmp_path, ["a"], None)
    assert [example.label for example in load(tmp_path, ["a"], None, unlabelled=True)] == [(0,), None]
    with pytest.raises(TrothError, match="row 2 has the label -1; classes count from 0"):
        load(tmp_path, [0], [1, -1])
    model = planted_labels()
    with pytest.raises(TrothError, match="do not match the classes of planted labels"):
        match_labels(load(tmp_path, ["odd", "warm"]), model.labels, model.name, model.outputs)
