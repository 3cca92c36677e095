"""The gate's workflow and test in docs/guide/ci.md work as they are printed."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from troth.cli import main

PAGE = (Path(__file__).parents[1] / "docs" / "guide" / "ci.md").read_text(encoding="utf-8")
(WORKFLOW,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_step_of_the_workflow_is_a_gate(tmp_path, monkeypatch):
    steps = yaml.safe_load(WORKFLOW)["jobs"]["gate"]["steps"]
    (command,) = [step["run"] for step in steps if step.get("run", "").startswith("troth ")]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [*shlex.split(command), "--workers", "1"])
    with pytest.raises(SystemExit) as leaving:
        main()
    assert leaving.value.code == 0
    artifact = next(step["with"]["path"] for step in steps if "artifact" in step.get("uses", ""))
    assert (tmp_path / artifact).is_file()


def test_the_test_in_the_page_is_found_by_pytest():
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert re.search(r"^def test_", block, re.MULTILINE)  # that it runs: tests/test_readme.py
    assert "assert board.require(" in block
