import json

import pytest

from troth.core.errors import TrothError
from troth.data import load_data


def load(tmp_path, rows, **options):
    path = tmp_path / "films.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_data(path, **options)


def fails(tmp_path, rows, **options):
    with pytest.raises(TrothError) as caught:
        load(tmp_path, rows, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("columns", "text", "pair"),
    [
        (["sentence"], "sentence", None),
        (["Review"], "Review", None),
        (["premise", "hypothesis"], "premise", "hypothesis"),
        (["sentence2", "sentence1"], "sentence1", "sentence2"),
        (["question1", "question2"], "question1", "question2"),
        (["question", "sentence"], "sentence", "question"),
        (["question", "passage"], "passage", "question"),
        (["question"], "question", None),
        (["title", "text"], "text", None),
    ],
)
def test_columns_are_guessed_from_the_usual_names_and_said(tmp_path, columns, text, pair):
    rows = [{**{column: f"{column} {number}" for column in columns}, "gold": number} for number in (0, 1)]
    data = load(tmp_path, rows)
    assert [example.text for example in data] == [f"{text} 0", f"{text} 1"]
    assert [example.text_pair for example in data] == ([f"{pair} 0", f"{pair} 1"] if pair else [None, None])
    assert [example.label for example in data] == [0, 1]
    expected = [f"text: column {text!r} (guessed)", "label: column 'gold' (guessed)"]
    assert list(data.notes) == expected + ([f"text_pair: column {pair!r} (guessed)"] if pair else [])


def test_columns_can_be_named_and_left_out(tmp_path):
    rows = [
        {"text": "a", "body": "b", "question": "q1", "stars": 1},
        {"text": "c", "body": "d", "question": "q2", "stars": 0},
    ]
    data = load(tmp_path, rows, text="body", label="stars", text_pair="")
    assert [(example.text, example.text_pair, example.label) for example in data] == [("b", None, 1), ("d", None, 0)]
    assert data.notes == ("text: column 'body'", "label: column 'stars'")
    assert load(tmp_path, rows, text="question")[0].text_pair is None


def test_no_text_column_names_what_there_is_and_the_option(tmp_path):
    message = fails(tmp_path, [{"title": "a", "stars": 1}])
    assert message == "films.jsonl has no text column; columns: title, stars; name it with --text"
    message = fails(tmp_path, [{"text": "a"}], text_pair="other")
    assert message == "films.jsonl has no column 'other' (--text-pair); columns: text"


def test_a_row_without_text(tmp_path):
    message = fails(tmp_path, [{"text": "a"}, {"text": None}])
    assert message == "films.jsonl: row 2 has no text (no text); drop it or name another column with --text"
    message = fails(tmp_path, [{"text": 3}])
    assert message == "films.jsonl: row 1 has no text (text is int); drop it or name another column with --text"


def test_a_second_text_that_never_changes_is_left_out_and_said(tmp_path):
    rows = [{"text": "a", "query": "how is it?"}, {"text": "b", "query": "how is it?"}]
    data = load(tmp_path, rows)
    assert [example.text_pair for example in data] == [None, None]
    assert "text_pair: none; column 'query' is the same in every row" in data.notes
    assert load(tmp_path, rows, text_pair="query")[0].text_pair == "how is it?"


def labels(tmp_path, values, **options):
    data = load(tmp_path, [{"text": "a", "label": value} for value in values], **options)
    return [example.label for example in data], data.labels


@pytest.mark.parametrize(
    ("values", "expected", "names"),
    [
        ([2, 0], [2, 0], ()),
        ([1.0, 0.0], [1, 0], ()),
        (["1", " 0"], [1, 0], ()),
        ([True, False], [1, 0], ("False", "True")),
        (["pos", "neg", "pos"], [1, 0, 1], ("neg", "pos")),
        (["10", "two"], [0, 1], ("10", "two")),
    ],
)
def test_labels_as_numbers_and_words(tmp_path, values, expected, names):
    assert labels(tmp_path, values) == (expected, names)


def test_sorted_words_are_said(tmp_path):
    data = load(tmp_path, [{"text": "a", "label": "pos"}, {"text": "b", "label": "neg"}])
    assert data.notes[-1] == "labels: 0 = neg, 1 = pos (words in sorted order)"


def test_names_given_by_the_caller_decide_the_order(tmp_path):
    names = ("pos", "neg")
    assert labels(tmp_path, ["pos", "NEG"], labels=names) == ([0, 1], names)
    assert labels(tmp_path, [1, 0], labels=names) == ([1, 0], names)
    assert labels(tmp_path, [5.0, 3], labels=("3", "5")) == ([1, 0], ("3", "5"))
    message = fails(tmp_path, [{"text": "a", "label": "meh"}], labels=names)
    assert message == "films.jsonl: row 1: no class is called 'meh'; there are: neg, pos"
    message = fails(tmp_path, [{"text": "a", "label": 2}], labels=names)
    assert message == "films.jsonl: row 1 has the label 2; the classes are 0 pos, 1 neg"


@pytest.mark.parametrize("missing", [None, "", float("nan")])
def test_a_row_without_label(tmp_path, missing):
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": missing}]
    assert fails(tmp_path, rows) == "films.jsonl: row 2 has no label; drop it or pass --unlabelled"
    assert [example.label for example in load(tmp_path, rows, unlabelled=True)] == [1, None]
    assert [example.label for example in load(tmp_path, rows, label="")] == [None, None]


def test_labels_that_are_no_classes(tmp_path):
    assert fails(tmp_path, [{"text": "a", "label": 0.73}]) == (
        "films.jsonl: row 1 has the label 0.73; a class is a whole number or a word: name another column with --label, "
        "or pass --label '' to leave labels out"
    )
    assert fails(tmp_path, [{"text": "a", "label": {"a": 1}}]) == (
        "films.jsonl: row 1 has the label {'a': 1}; each row must belong to one class"
    )
    assert fails(tmp_path, [{"text": "a", "label": 0}, {"text": "b", "label": -1}]) == (
        "films.jsonl: row 2 has the label -1; classes count from 0: drop the row, pass --label '' to leave labels out, "
        "or write the classes as words"
    )


def test_without_label_column_all_are_unlabelled_and_that_is_said(tmp_path):
    data = load(tmp_path, [{"text": "a", "stars": 3}])
    assert data[0].label is None
    assert data.notes[-1] == "label: none; columns: text, stars"


def test_ids_are_the_column_or_the_place(tmp_path):
    assert [example.id for example in load(tmp_path, [{"text": "a", "idx": 7}, {"text": "b", "idx": 3}])] == ["7", "3"]
    assert [example.id for example in load(tmp_path, [{"text": "a"}, {"text": "b"}])] == ["0", "1"]
    rows = [{"text": "a", "id": "x"}, {"text": "b", "id": "x"}]
    data = load(tmp_path, rows)
    assert [example.id for example in data] == ["0", "1"]
    assert "id: the row's place; column 'id' does not tell rows apart" in data.notes
    assert fails(tmp_path, rows, id="id").startswith(
        "films.jsonl: column 'id' cannot be used as the id: a row has none, two rows have the same"
    )


TEXT = "not a good film , but not a bad one"


def marked(tmp_path, value, **options):
    example = load(tmp_path, [{"text": TEXT, "rationale": value}], **options)[0]
    return None if example.rationale is None else [TEXT[start:end] for start, end in example.rationale]


def test_rationales_as_characters_and_as_token_groups(tmp_path):
    assert marked(tmp_path, [[6, 10], [28, 31]]) == ["good", "bad"]
    assert marked(tmp_path, "[[6, 10]]") == ["good"]
    assert marked(tmp_path, []) == []
    assert marked(tmp_path, None) is None
    pieces = [{"start_token": start, "end_token": end} for start, end in ((0, 3), (2, 4), (8, 9))]
    assert marked(tmp_path, [pieces]) == ["not a good film", "bad"]
    assert marked(tmp_path, pieces) == ["not a good film", "bad"]
    assert marked(tmp_path, [[pieces[2]], [{"start_token": 5, "end_token": 5}]]) == ["bad"]


def test_a_column_that_only_looks_like_a_rationale_is_left_out_and_said(tmp_path):
    data = load(tmp_path, [{"text": TEXT, "rationale": "because it says good"}])
    assert data[0].rationale is None
    note = "rationale: none; column 'rationale', row 1: the rationale is text, not a list of [start, end]"
    assert note in data.notes


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([[6, 99]], "the rationale marks characters 6 to 99, but the text has 35"),
        ([[6, 6]], "the rationale marks characters 6 to 6, but the text has 35"),
        ([3], "'3' in the rationale is not a [start, end]"),
        ([[{"start_token": 3, "end_token": 77}]], "the rationale names tokens 3 to 77, but the text has 10"),
        ([[{"start": 3}]], "a piece of the rationale has no start_token"),
        (7, "the rationale is int, not a list of [start, end]"),
    ],
)
def test_a_broken_rationale_column_that_was_asked_for(tmp_path, value, problem):
    message = fails(tmp_path, [{"text": TEXT, "rationale": value}], rationale="rationale")
    assert message == f"films.jsonl: row 1: {problem}"
