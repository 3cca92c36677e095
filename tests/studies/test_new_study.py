"""docs/reference/new_study.md, worked through: its study is one new file that list, dry run and run find."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import troth as package
from troth import studies
from troth.core import catalog

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "new_study.md"


@pytest.fixture
def command(troth, tmp_path, monkeypatch):
    """Runs troth with the page's file among the studies."""
    (study,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    folder = tmp_path / "package" / "studies"
    folder.mkdir(parents=True)
    (folder / "beats_random.py").write_text(study)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder.parent)])
    monkeypatch.setattr(studies, "__path__", [*studies.__path__, str(folder)])
    catalog._entry.cache_clear()

    def run(*words):
        code, out, err = troth(*words)
        assert code == 0, err
        return out

    yield run
    sys.modules.pop("troth.studies.beats_random", None)
    catalog._entry.cache_clear()


def test_a_new_file_is_a_new_study(command, tmp_path):
    assert "beats_random Does leave-one-out beat random on your data?" in " ".join(command("list", "studies").split())
    common = ("study", "beats_random", "--limit", "5", "--workers", "1", "--out", "run")
    dry = command(*common, "--dry-run")
    assert "5 cells (pieces of work): 1 data, 2 explanation, 2 metric" in dry
    assert not (tmp_path / "run").exists()
    facts = json.loads(command(*common, "--json"))["reviews"]
    model, data = package.load_model("embedded"), package.load_data("reviews", limit=5)
    for explainer in ("leave_one_out", "random"):
        scores = package.measure(model, package.explain(model, data, explainer), "comprehensiveness")
        assert facts[explainer] == pytest.approx(np.mean([score.value for score in scores]), abs=1e-5)
    assert 0 < facts["p"] <= 1
    assert "| leave_one_out | " in (tmp_path / "run" / "study.md").read_text()
