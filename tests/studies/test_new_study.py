"""docs/new_study.md, worked through: the study of the page is one new file that list, dry run and run find."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import troth

SOURCE = Path(troth.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "new_study.md"


@pytest.fixture
def command(tmp_path):
    """Runs troth from a copy of the package that has the page's file."""
    (study,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    shutil.copytree(SOURCE, tmp_path / "troth", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "troth" / "studies" / "beats_random.py").write_text(study)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}

    def run(*words):
        done = subprocess.run(
            [sys.executable, "-m", "troth", *words],
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_new_file_is_a_new_study(command, tmp_path):
    assert "beats_random Does leave-one-out beat random on your data?" in " ".join(command("list", "studies").split())
    common = ("study", "beats_random", "--limit", "5", "--workers", "1", "--out", "run")
    dry = command(*common, "--dry-run")
    assert "5 cells (1 data, 2 explanation, 2 metric)" in dry
    assert not (tmp_path / "run").exists()
    facts = json.loads(command(*common, "--json"))["reviews"]
    model, data = troth.load_model("embedded"), troth.load_data("reviews", limit=5)
    for explainer in ("leave_one_out", "random"):
        scores = troth.measure(model, troth.explain(model, data, explainer), "comprehensiveness")
        assert facts[explainer] == pytest.approx(np.mean([score.value for score in scores]), abs=1e-5)
    assert 0 < facts["p"] <= 1
    assert "| leave_one_out | " in (tmp_path / "run" / "study.md").read_text()
