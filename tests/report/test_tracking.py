"""What MLflow and Weights & Biases are given, read back from a store on disk."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import troth
from troth.cli import app
from troth.report.logged import logged


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    data, out = troth.load_data("reviews", limit=12), tmp_path_factory.mktemp("bench") / "run"
    methods = ["gradient", "gradient(norm='l1')"]
    return troth.bench("embedded", data, methods, ["sufficiency"], out, progress=False)


def test_what_is_logged(bench):
    board = bench.leaderboard
    with logged(bench) as found:
        assert found.parameters["model"] == "embedded"
        assert found.parameters["examples"] == "12"
        for (explainer, metric), summary in board.summaries.items():
            name = f"sufficiency/{explainer.replace('(', ' ').replace('=', '_').translate({39: None, 41: None})}"
            ends = [found.numbers[f"{name}{end}"] for end in ("", "/low", "/high")]
            assert ends == [summary.value, summary.low, summary.high], (explainer, metric)
        assert len(found.numbers) == 3 * len(board.summaries)
        files = {path.relative_to(found.folder).as_posix() for path in found.folder.rglob("*") if path.is_file()}
        assert {"report.html", "tables/01-leaderboard.csv", "tables/01-leaderboard.svg"} <= files
    assert not found.folder.exists()
    with logged(board) as same:
        assert same.numbers == found.numbers


def test_mlflow_holds_numbers_with_intervals_and_files_that_open(bench, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: pip install 'troth[mlflow]'")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    mlflow.create_experiment("troth", artifact_location=(tmp_path / "artifacts").as_uri())
    mlflow.set_experiment("troth")
    run = mlflow.get_run(troth.log_to_mlflow(bench))
    with logged(bench) as found:
        assert run.data.params == found.parameters
        assert run.data.metrics == pytest.approx(found.numbers)
    report = mlflow.artifacts.download_artifacts(f"runs:/{run.info.run_id}/report.html", dst_path=str(tmp_path))
    assert "gradient" in Path(report).read_text(encoding="utf-8")
    table = mlflow.load_table("tables/leaderboard.json", run_ids=[run.info.run_id])
    assert set(table["explainer"]) == {"random", "gradient", "gradient(norm='l1')"}
    with mlflow.start_run() as active:  # an active run is used
        assert troth.log_to_mlflow(bench.leaderboard) == active.info.run_id


def test_wandb_offline(bench, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="Weights & Biases is not installed: pip install 'troth[wandb]'")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_MODE", "offline")
    name = troth.log_to_wandb(bench)
    assert wandb.run is None
    (written,) = tmp_path.glob(f"wandb/offline-run-*-{name}/run-{name}.wandb")
    content = written.read_bytes()
    assert b"sufficiency/gradient" in content
    assert b"embedded" in content


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_tracker_that_is_missing_is_one_line_before_any_work(name, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda module: None)
    out = tmp_path / "run"
    shown = CliRunner().invoke(app, ["bench", "--log", name, "--out", str(out), "--limit", "2"])
    assert f"pip install 'troth[{name}]'" in str(shown.exception)
    assert not out.exists()


def test_an_unknown_tracker():
    shown = CliRunner().invoke(app, ["bench", "--log", "neptune"])
    assert str(shown.exception) == "--log must be mlflow or wandb, not 'neptune'"


def test_on_the_command_line(bench, monkeypatch):
    given = []
    monkeypatch.setattr("importlib.util.find_spec", lambda module: module)
    monkeypatch.setattr(troth, "log_to_mlflow", given.append, raising=False)
    arguments = ["bench", "-e", "gradient,gradient(norm='l1')", "--metrics", "sufficiency", "--limit", "12"]
    shown = CliRunner().invoke(
        app, [*arguments, "--workers", "1", "--out", str(bench.folder), "--log", "mlflow", "--json"]
    )
    assert shown.exit_code == 0, shown.output
    (board,) = given
    assert json.loads(shown.stdout)["model"] == board.model == "embedded"
