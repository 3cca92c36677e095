import json

import pytest
from typer.testing import CliRunner

from troth.cli import app
from troth.core.errors import TrothError
from troth.training import presets

RUN = CliRunner()
SMALL = ["--base", "bilstm_attention(embedding=8, hidden=8)", "--epochs", "1", "--batch-size", "16", "--cpu"]


def test_json_report_and_table(tmp_path):
    command = ["train", "masked", "--data", "babi(size=40)", "--out", str(tmp_path / "m"), *SMALL]
    done = RUN.invoke(app, [*command, "--json", "--test", "test"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["folder"] == str(tmp_path / "m")
    assert set(report["scores"]) == {"validation", "test"}
    assert set(report["scores"]["test"]) == {"unmasked", "masked", "all_masked"}
    shown = RUN.invoke(app, [*command, "--test", "test"])  # done already: only shown
    assert "all masked" in shown.stdout
    assert "majority class" in shown.stdout
    value = 100 * report["scores"]["test"]["unmasked"]["accuracy"]
    assert f"{value:.1f}" in shown.stdout


def test_a_csv_with_named_columns(tmp_path):
    rows = "".join(f"{i},text number {i},{'good' if i % 2 else 'bad'}\n" for i in range(30))
    (tmp_path / "films.csv").write_text("n,words,verdict\n" + rows)
    done = RUN.invoke(
        app,
        ["train", "plain", "--data", str(tmp_path / "films.csv"), "--text", "words", "--label", "verdict", "--json",
         "--class-weights", "1,2", "--out", str(tmp_path / "m"), *SMALL],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["identity"]["labels"] == ["bad", "good"]
    assert report["identity"]["class_weights"] == [1.0, 2.0]
    assert any("held out 6 of 30" in note for note in report["notes"])


def test_what_a_user_can_mend(tmp_path):
    for arguments, message in [
        (["plain", "--data", "sst"], "name a model to start from: --base"),
        (["plan", "--data", "babi", *SMALL], "no recipe is called 'plan'; did you mean plain"),
        (["plain", "--data", "babi(size=20)", "--class-weights", "a,b", *SMALL], "--class-weights must be balanced or"),
        (["plain", "--data", "babi(size=20)", "--metric", "f1", *SMALL], "metric must be accuracy or macro_f1"),
    ]:
        done = RUN.invoke(app, ["train", *arguments, "--out", str(tmp_path / "x")])
        assert isinstance(done.exception, TrothError)
        assert message in str(done.exception)


@pytest.mark.full
def test_babi_from_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = RUN.invoke(app, ["train", "masked", "--data", "babi", "--json", "--test", "test"])
    report = json.loads(done.stdout)
    for split in ("validation", "test"):
        scores = report["scores"][split]
        assert scores["unmasked"]["accuracy"] >= 0.95
        assert scores["all_masked"]["accuracy"] >= report["majority"][split] - 0.01
    assert (tmp_path / "runs" / "masked-babi-0" / "train.json").exists()


def test_the_starter_is_for_data_that_is_made_here():
    assert presets.starter("imdb") is None
    assert presets.starter("babi")["base"].startswith("bilstm_attention(")
