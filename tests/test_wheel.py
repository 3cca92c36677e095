"""What is shipped: a wheel under 20 MB that installs without a network and brings its model and data along."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import troth

ROOT = Path(__file__).parents[1]
CODE = """
import json
import torch, troth
from troth.report.run_page import asset
from troth.studies import published
torch.set_num_threads(1)
data = troth.load_data("reviews", limit=2)
(first, _) = troth.explain("embedded", data, "gradient")
print(json.dumps({"place": troth.__file__, "units": list(first.units), "published": len(published.read("aml_human")),
                  "page": len(asset("page.js"))}))
"""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_is_small_and_works_offline(tmp_path):
    source = tmp_path / "source"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        source.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(source))
    (wheel,) = tmp_path.glob("troth-*.whl")
    assert wheel.stat().st_size < 20e6
    run(*pip, "install", "--no-deps", "--no-index", "--target", str(tmp_path / "installed"), str(wheel))
    offline = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    said = json.loads(run(sys.executable, "-c", CODE, env=offline, cwd=tmp_path))
    assert said["place"].startswith(str(tmp_path / "installed"))
    assert "tender" in said["units"]
    assert said["published"] == 8
    assert said["page"] > 10_000

    command = (sys.executable, "-m", "troth")
    words = json.loads(
        run(*command, "explain", "A wonderful film.", "-e", "gradient", "--json", env=offline, cwd=tmp_path)
    )
    assert words[0]["units"][1] == "wonderful"
    small = ("-e", "gradient", "--metrics", "comprehensiveness", "--limit", "2", "--workers", "1", "--out", "run")
    run(*command, "bench", *small, env=offline, cwd=tmp_path)
    (tmp_path / "run" / "report.html").unlink()
    run(*command, "report", "run", env=offline, cwd=tmp_path)
    assert "gradient" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_the_version_is_the_same_everywhere():
    written = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert written == troth.__version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = next(line for line in changes.splitlines() if line.startswith("## "))
    assert heading.split()[1] == written.partition(".dev")[0]
    assert ("(unreleased)" in heading) == (".dev" in written), "a release has a date, what is under way has none"
