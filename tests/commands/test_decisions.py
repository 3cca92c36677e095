"""Wrong decisions first: which examples of the data are explained, and what is said of each, on every way out."""

import csv
import io
import json

import pytest

from troth import explain, load_model

ROWS = [
    ("a fine film", "positive"), ("a dull film", "positive"), ("an awful plot", "negative"),
    ("a great cast", "negative"), ("the worst film", "negative"),
]  # fmt: skip


@pytest.fixture
def data(tmp_path):
    (tmp_path / "claims.csv").write_text(
        "id,text,label\n" + "".join(f"c{place},{text},{label}\n" for place, (text, label) in enumerate(ROWS))
    )
    return tmp_path / "claims.csv"


def wrong():
    labels = [
        each.label(each.target) for each in explain(load_model("embedded"), [text for text, _ in ROWS], "leave_one_out")
    ]
    return [f"c{place}" for place, (_, gold) in enumerate(ROWS) if labels[place] != gold]


def test_wrong_decisions_are_found_and_named(troth, data):
    asked = ("explain", "--data", data, "-e", "leave_one_out", "--no-proof")
    expected = wrong()
    assert 0 < len(expected) < len(ROWS)
    code, plain, problem = troth(*asked, "--only", "wrong", "--json", "--csv", "out.csv")
    assert code == 0, problem
    assert [facts["id"] for facts in json.loads(plain)] == expected
    rows = list(csv.DictReader(io.StringIO((data.parent / "out.csv").read_text())))
    assert list(dict.fromkeys(row["example"] for row in rows)) == expected
    assert all(row["gold"] != row["predicted"] and 0.5 <= float(row["probability"]) <= 1 for row in rows)
    _, plain, _ = troth(*asked, "--only", "right", "--json")
    right = [f"c{place}" for place in range(len(ROWS)) if f"c{place}" not in expected]
    assert [facts["id"] for facts in json.loads(plain)] == right
    _, plain, _ = troth(*asked, "--only", "wrong", "--limit", 1, "--json")
    assert [facts["id"] for facts in json.loads(plain)] == expected[:1]
    _, plain, _ = troth(*asked, "--only", "wrong", "--id", ",".join([*reversed(expected), right[0]]), "--json")
    assert [facts["id"] for facts in json.loads(plain)] == [*reversed(expected)]
    _, shown, _ = troth(*asked, "--id", "c4,c0")
    assert shown.index("example c4, gold negative, ") < shown.index("example c0, gold positive, ")


def test_labels_that_are_no_classes_of_the_model_are_not_judged(troth, tmp_path):
    (tmp_path / "moods.csv").write_text("id,text,mood\n1,a fine film,happy\n2,a dull film,sad\n")
    code, shown, problem = troth("explain", "--data", "moods.csv", "--label", "mood", "-e", "leave_one_out")
    assert code == 0, problem
    assert [" ".join(shown[shown.index(f"example {name}") :].split())[:51] for name in "12"] == [
        "example 1, gold happy, not a class of the model: po", "example 2, gold sad, not a class of the model: nega",
    ]  # fmt: skip
    assert "wrong" not in shown
    assert "right" not in shown


def test_a_data_frame_has_the_decision(data):
    from troth import load_data

    attributions = explain(load_model("embedded"), load_data(str(data), id="id"), "leave_one_out")
    record = attributions.sheet().records[0]
    assert {name: record[name] for name in ("example", "text", "gold")} == {
        "example": "c0", "text": "a fine film", "gold": "positive",
    }  # fmt: skip
    assert record["probability"] == pytest.approx(attributions[0].probabilities[attributions[0].target])


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--only", "odd"), "--only must be wrong or right, not 'odd'"),
        (("--id", "c9"), "'c9'"),
    ],
)
def test_what_cannot_be_chosen_is_one_line(troth, data, options, line):
    code, _, problem = troth("explain", "--data", data, *options)
    assert (code, problem.count("\n")) == (2, 1)
    assert line in problem


def test_only_and_id_go_with_data(troth):
    code, _, problem = troth("explain", "a film", "--only", "wrong")
    assert (code, "--only wrong needs --data" in problem) == (2, True)


def test_a_function_has_a_default_method_and_a_dry_run_says_what_it_will_be_asked(troth, tmp_path):
    (tmp_path / "rule.py").write_text(
        "import pathlib\n\n"
        "def predict(texts):\n"
        "    with pathlib.Path('asked').open('a') as file:\n"
        "        file.write('x' * len(texts))\n"
        "    return [[0.9, 0.1] if 'awful' in text else [0.2, 0.8] for text in texts]\n"
    )
    asked = ("explain", "an awful film with a long dull plot", "-m", "rule.py:predict", "--labels", "no,yes")
    code, shown, problem = troth(*asked)
    assert code == 0, problem
    assert shown.splitlines()[2] == "leave_one_out"
    (tmp_path / "asked").unlink()
    code, plain, problem = troth(*asked, "--dry-run", "--json")
    assert code == 0, problem
    expected = json.loads(plain)
    assert set(expected["by_method"]) == {"leave_one_out", "proof"}
    before = len((tmp_path / "asked").read_text()) if (tmp_path / "asked").exists() else 0
    troth(*asked)
    real = len((tmp_path / "asked").read_text()) - before
    assert expected["passes"] / 2 <= real <= expected["passes"] + 2


def test_check_reads_columns_of_any_name(troth, tmp_path):
    rows = [f"{text} number {place},{label}" for place in range(12) for text, label in ROWS]
    (tmp_path / "moods.csv").write_text("comment,mood\n" + "\n".join(rows) + "\n")
    asked = ("check", "--data", tmp_path / "moods.csv", "-e", "random", "--step", "0.5")
    code, shown, problem = troth(*asked, "--text", "comment", "--label", "mood")
    assert code == 0, problem
    assert "moods" in shown
    code, _, problem = troth(*asked, "--text", "comment", "--label", "feeling")
    assert code == 2
    assert "no column 'feeling'" in problem
    assert "comment, mood" in problem


@pytest.mark.parametrize("option", ["--explainer", "--explainers"])
def test_explain_and_bench_take_the_same_option_for_explainers(troth, option):
    code, shown, problem = troth("explain", "a fine film", option, "gradient", "--no-proof", "--json")
    assert code == 0, problem
    assert json.loads(shown)[0]["explainer"].startswith("gradient(")
    code, shown, problem = troth(
        "bench", "--limit", "2", option, "gradient", "--metrics", "sparsity", "--dry-run", "--json"
    )
    assert code == 0, problem
    assert json.loads(shown)["cells"]["explanation"] == 2  # gradient and random
