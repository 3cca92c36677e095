"""The parts of the ROAR study on texts made here, small enough for seconds."""

import json
import re
import warnings

import pytest
from tests.studies.roar.planted import texts
from typer.testing import CliRunner

from troth.cli import app
from troth.core.errors import TrothError
from troth.studies.roar import Roar

BASE = "bilstm_attention(embedding=6, hidden=4)"


@pytest.fixture
def data(tmp_path):
    file = tmp_path / "films.jsonl"
    rows = [{"id": one.id, "text": one.text, "label": one.label} for one in texts(60, 0)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def run(*arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = CliRunner().invoke(app, ["study", *map(str, arguments)])
    assert said.exit_code == 0, said.output
    return said.stdout


def test_every_part_on_any_data(data, tmp_path):
    study = "roar(step=0.5, epochs=1, explainers=('gradient',))"
    common = [study, "--data", data, "--base", BASE, "--seeds", 2, "--workers", 1, "--out", tmp_path / "s"]
    said = run(*common, "--only", "comparison", "--dry-run")
    # Two seeds: both ends, and the middle at random and by gradient, which is the same in both benchmarks.
    assert "8 trainings, side by side in" in said
    assert re.search(r"time: (about \d|under 1 s)", said)
    names = ("comparison", "faithfulness", "performance", "sparsity", "wall_time")
    parts = [flag for name in names for flag in ("--only", name)]
    found = json.loads(run(*common, *parts, "--json"))
    (comparison,), (faithfulness,) = found["comparison"].values(), found["faithfulness"].values()
    assert comparison["trainings"] == 8
    assert comparison["examples"] == {"train": 38, "validation": 10, "test": 12}
    assert comparison["recursive"] == faithfulness["curves"]
    assert len(comparison["roar"][0]["by_seed"]) == 2
    assert comparison["roar"][0]["places"] == [0, 0.5, 1]
    (sparsity,), (times,) = found["sparsity"].values(), found["wall_time"].values()
    assert sparsity["sparsity"]["test"]["gradient"]["by_ratio"][-1] == [pytest.approx(1)] * 3
    shares = [sparsity["sparsity"][split] for split in ("test", "validation")]
    assert all(set(share) == {"gradient", "random"} for share in shares)
    assert shares[0]["random"]["by_ratio"][4] != shares[1]["random"]["by_ratio"][4]  # of other texts
    # Uniform scores: the upper half holds three quarters.
    assert all(abs(share["random"]["by_ratio"][4][0] - 0.75) < 0.1 for share in shares)
    (quality,) = found["performance"].values()
    assert quality["performance"] == [row[0] for row in faithfulness["curves"][0]["by_seed"]]
    assert set(times["seconds"]) == {"random", "gradient"}
    assert ", 0 to do" in run(*common, "--only", "comparison", "--dry-run")
    page = (tmp_path / "s" / "study.md").read_text()
    assert "| measure | ROAR RACU % | recursive | more | published recursive |" in page
    assert "4 of 4 models of erased texts were best in their last epoch (1): with more epochs the curves" in page
    assert (tmp_path / "s" / "02-faithfulness.png").exists()


@pytest.mark.full
def test_one_token_steps_after_the_synthetic_part_in_one_folder(data, tmp_path):
    study = "roar(epochs=1, explainers=('attention',))"
    common = [study, "--data", data, "--base", BASE, "--workers", 1, "--out", tmp_path / "s", "--json"]
    found = json.loads(run(*common, "--only", "synthetic", "--only", "one_token"))
    (one_token,) = found["one_token"].values()
    assert one_token["curves"][0]["places"] == list(range(11))
    assert one_token["trainings"] == 1 + 10 + 10
    assert one_token["curves"][0]["racu"] is None


def test_a_step_that_does_not_divide_one():
    with pytest.raises(TrothError, match=r"step must divide 1 .* not 0.3"):
        Roar(step=0.3)
