"""What is shipped: a wheel under 20 MB that installs without a network and brings its model and data along."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

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


PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")
# As a newcomer works, in an empty folder of a machine without a network; the page is asked as a browser asks it.
FIRST_HOUR = """
import json, pathlib, socket, subprocess, sys, urllib.request

try:
    socket.create_connection(("1.1.1.1", 443), timeout=2)
except OSError:
    pass
else:
    sys.exit("there is a network")


def troth(*words):
    done = subprocess.run([sys.executable, "-m", "troth", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"troth {' '.join(words)}: {done.stderr}"
    return done.stdout


print(troth("--version"))
(words,) = json.loads(troth("explain", "A wonderful film.", "-e", "gradient", "--json"))
assert words["units"][1] == "wonderful", words
small = ["--metrics", "comprehensiveness", "--limit", "4", "--workers", "1"]
troth("bench", "-e", "gradient", *small, "--out", "runs/one")
report = pathlib.Path("runs/one/report.html")
report.unlink()
troth("report", "runs/one")
assert "gradient" in report.read_text()
server = subprocess.Popen(
    [sys.executable, "-m", "troth", "serve", "--port", "0", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
)
try:
    lines = b"".join(iter(server.stdout.readline, b"}\\n")) + b"}"
    url = json.loads(lines)["url"]
    page = urllib.request.urlopen(url).read().decode()
    assert "<html" in page
    body = json.dumps({"text": "A dull film.", "explainers": ["leave_one_out"]}).encode()
    asked = urllib.request.Request(url + "api/explain", body, {"Content-Type": "application/json"})
    (found,) = json.load(urllib.request.urlopen(asked))
    assert found["units"] == ["A", "dull", "film", "."], found
    assert "gradient" in urllib.request.urlopen(url + "runs/one").read().decode()
finally:
    server.terminate()
    server.communicate()
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        source.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    build = ("wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder), str(source))
    run(sys.executable, *PIP, *build)
    (found,) = folder.glob("troth-*.whl")
    return found


def test_the_wheel_is_small_and_holds_page_and_model(wheel):
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB")
    assert wheel.stat().st_size < 20e6
    names = zipfile.ZipFile(wheel).namelist()
    assert {"troth/report/page_assets/page.js", "troth/report/page_assets/page.css", "troth/py.typed"} <= set(names)
    assert [name for name in names if name.endswith(".safetensors")]
    assert not [name for name in names if not name.startswith("troth")], "the wheel holds troth alone"


@pytest.mark.full
def test_the_wheel_works_in_a_clean_environment_without_a_network(wheel, tmp_path):
    isolated = ("unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh")
    if subprocess.run([*isolated, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine cannot take the network away from a process (unshare --net)")
    run(sys.executable, "-m", "venv", str(tmp_path / "clean"))
    python = str(tmp_path / "clean" / "bin" / "python")
    install = [
        python,
        *PIP,
        "install",
        "--constraint",
        str(ROOT / "constraints.txt"),
        f"troth[serve] @ {wheel.as_uri()}",
    ]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode and "connection" in done.stderr.lower():
        pytest.skip(f"no package index: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    (empty := tmp_path / "empty").mkdir()
    # Nothing of ours in the environment: no PYTHONPATH, no HF_HUB_OFFLINE, a home without caches.
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    said = run(*isolated, python, "-c", FIRST_HOUR, env=environment, cwd=empty, timeout=600)
    assert f"troth {troth.__version__}" in said
    assert [path.name for path in empty.iterdir()] == ["runs"], "nothing else is written"


@pytest.mark.full
def test_the_wheel_works_offline(wheel, tmp_path):
    run(sys.executable, *PIP, "install", "--no-deps", "--no-index", "--target", str(tmp_path / "installed"), str(wheel))
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
