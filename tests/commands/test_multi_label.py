"""`troth explain` and `troth bench` with several labels."""

import json

import pytest

from labels import LABELS, planted_labels

TEXT = "the service was awful , but the film a joy"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("labels")
    model = planted_labels()
    model.model.config.id2label = dict(enumerate(LABELS))
    model.model.config.label2id = {label: index for index, label in enumerate(LABELS)}
    model.model.save_pretrained(path)
    model.tokenizer.save_pretrained(path)
    return str(path)


@pytest.fixture
def troth_command(troth):
    """What a command that works prints."""

    def call(*arguments):
        code, printed, problems = troth(*arguments)
        assert code == 0, problems
        return printed

    return call


@pytest.fixture
def troth_fails(troth):
    """The one line of a command that does not."""

    def call(*arguments):
        code, _, problems = troth(*arguments)
        assert code == 2
        assert problems.count("\n") == 1
        return problems.strip()

    return call


def test_labels_are_shown_with_their_own_probability(troth_command, folder, tmp_path):
    asked = ["explain", TEXT, "-m", folder, "-e", "leave_one_out", "--target", "rude,warm"]
    page = tmp_path / "page.html"
    shown = troth_command(*asked, "--html", str(page))
    facts = json.loads(troth_command(*asked, "--json"))
    assert [(each["target_label"], each["outputs"]) for each in facts] == [("rude", "labels"), ("warm", "labels")]
    for place, each in enumerate(facts):
        line = f"{LABELS[place]}: yes ({100 * each['probabilities'][place]:.0f} %)"
        assert line in shown
        assert line in page.read_text()
        assert each["proof"]["probability"] == pytest.approx(each["probabilities"][place], abs=1e-5)
    assert "runner-up" not in shown


def test_all_above_the_threshold(troth_command, folder):
    asked = ["explain", TEXT, "the soup was cold", "-m", folder, "-e", "leave_one_out", "--target", "above_threshold"]
    shown = troth_command(*asked)
    assert "rude: yes" in shown
    assert "warm: yes" in shown
    assert "text 1: no label is above the threshold 0.5" in shown
    assert json.loads(troth_command(*asked, "--threshold", "0.99", "--json")) == []


def test_records_of_several_labels_hold(troth_command, folder, tmp_path):
    troth_command(
        "explain", TEXT, "the film was a joy", "-m", folder, "-e", "leave_one_out", "--target", "above_threshold",
        "--threshold", "0.3", "--record", str(tmp_path / "records"),
    )  # fmt: skip
    assert len(list((tmp_path / "records").glob("*.json"))) == 3
    verified = json.loads(troth_command("verify", str(tmp_path / "records"), "--allow", folder, "--json"))
    assert [each["holds"] for each in verified["records"]] == [True] * 3


def test_one_class_or_labels_as_the_user_says(troth_command, folder):
    shown = troth_command("explain", TEXT, "-m", folder, "-e", "leave_one_out", "--one-class")
    assert "runner-up warm" in shown
    assert "rude: no" in troth_command("explain", TEXT, "-m", folder, "-e", "leave_one_out", "--threshold", "0.99")


def test_bad_input(troth_fails, folder):
    assert troth_fails("explain", TEXT, "-m", folder, "--threshold", "1.5") == (
        "troth: --threshold must be between 0 and 1, such as 0.3, not 1.5"
    )
    assert "no label is called 'rue'; did you mean rude?" in troth_fails(
        "explain", TEXT, "-m", folder, "--target", "rue"
    )
    assert "needs --candidate-labels" in troth_fails(
        "explain", TEXT, "-m", folder, "--hypothesis-template", "It is {}."
    )
    assert "is not an NLI model" in troth_fails("explain", TEXT, "-m", folder, "--candidate-labels", "a,b")


def test_bench(troth_command, folder, tmp_path):
    path = tmp_path / "mails.csv"
    path.write_text(
        "text,label\n" + "\n".join([f'"{TEXT}",rude|warm', "the film was a joy,warm", "the soup was cold,"]) + "\n"
    )
    shown = json.loads(
        troth_command(
            "bench", "-m", folder, "-d", str(path), "-e", "leave_one_out", "--metrics", "comprehensiveness",
            "--threshold", "0.4", "--out", str(tmp_path / "run"), "--workers", "1", "--json",
        )
    )  # fmt: skip
    assert {row["explainer"] for row in shown["rows"]} == {"random", "leave_one_out"}
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["models"][folder]["options"]["threshold"] == 0.4
