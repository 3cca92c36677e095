"""Every way to name a method of one's own, with every verb that takes methods: the whole table.

An installed package offers a class and a function (entry points); a file has the same two, named file.py:Name; Python
also takes an object, a class and a function. All have the same scores.
"""

import importlib
import json
import sys
import textwrap

import pytest

import fakes
import troth as package
from sampled import every, long
from troth.commands import _options
from troth.core import catalog
from troth.core.types import Example
from troth.models.encoder import Encoder

CODE = """
from dataclasses import dataclass
from troth.core.types import Attribution, Score
from troth.explainers import Explainer
from troth.metrics import Metric

def tail(text):
    return [0.0] * (len(text.split()) - 1) + [1.0]

def peak(attribution):
    return float(attribution.scores.max())

@dataclass(frozen=True)
class Last(Explainer):
    signed = True
    weight: float = 1.0
    def ask(self, questions):
        yield from ()
        return [Attribution(each, [0.0] * (each.n_units - 1) + [self.weight], signed=True) for each in questions]

@dataclass(frozen=True)
class Largest(Metric):
    higher_is_better = True
    def ask(self, questions, attributions, explain):
        yield from ()
        return [Score(float(each.scores.max())) for each in attributions]
"""
POINTS = """[troth.explainers]
last_point = own_package:Last
tail_point = own_package:tail
[troth.metrics]
largest_point = own_package:Largest
peak_point = own_package:peak
"""
EXPLAINERS = {
    "class in a package": "last_point", "function in a package": "tail_point",
    "class in a file": "own_file.py:Last", "function in a file": "own_file.py:tail",
}  # fmt: skip
METRICS = {
    "class in a package": "largest_point", "function in a package": "peak_point",
    "class in a file": "own_file.py:Largest", "function in a file": "own_file.py:peak",
}  # fmt: skip
IN_PYTHON = ("object", "class", "function")
DATA = [Example(f"e{number}", text, label=number % 2) for number, text in enumerate(("a good film", "a bad book"))]
MANY = [Example(f"m{number}", f"{text} {number}") for number, text in enumerate(["a good film", "a bad book"] * 30)]


@pytest.fixture
def here(tmp_path, monkeypatch):
    metadata = tmp_path / "own_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: own-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(POINTS)
    for name in ("own_package.py", "own_file.py"):
        (tmp_path / name).write_text(textwrap.dedent(CODE))
    rows = [{"id": each.id, "text": each.text, "label": each.label} for each in DATA]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for cached in (catalog._installed, catalog._plugin):
        cached.cache_clear()
    yield tmp_path
    for cached in (catalog._installed, catalog._plugin):
        cached.cache_clear()
    sys.modules.pop("own_package", None)


def model():
    return Encoder(fakes.hf_model("bert"), fakes.tokenizer_for("bert"), name="tiny")


def given(names, way):
    """What is passed in Python for a way of naming."""
    if way not in IN_PYTHON:
        return names[way]
    cls, function = ("Last", "tail") if names is EXPLAINERS else ("Largest", "peak")
    module = importlib.import_module("own_package")
    if way == "function":
        return getattr(module, function)
    return getattr(module, cls) if way == "class" else getattr(module, cls)()


WAYS = (*IN_PYTHON, *EXPLAINERS)
SOME = [long("class in a package"), "function in a package", *map(long, [*EXPLAINERS][2:])]


@pytest.mark.parametrize("way", every(3, WAYS))
def test_explain_measure_bench_sweep_and_check_in_python(here, way):
    explainer, metric = given(EXPLAINERS, way), given(METRICS, way)
    attributions = package.explain(model(), DATA, explainer)
    assert [each.scores.tolist() for each in attributions] == [[0, 0, 1], [0, 0, 1]]
    assert [score.value for score in package.measure(model(), attributions, metric)] == [1, 1]
    board = package.bench(model(), DATA, [explainer], [metric], "bench").leaderboard
    swept = package.sweep(model(), DATA, [explainer], [metric], "sweep").leaderboards
    for each in (board, *swept):
        assert not each.failures
        own = next(name for name in each.explainers if name != "random")
        assert each.values[own, each.metrics[0]].tolist() == [1, 1]
    checked = package.check(model(), MANY, explainers=[explainer], step=0.5)
    assert [len(values) for values in checked.p_values.values()] == [30]


@pytest.mark.parametrize("way", SOME)
def test_explain_and_verify_of_a_record_on_the_command_line(here, troth, way):
    named = EXPLAINERS[way]
    code, out, err = troth("explain", "a good film", "-e", named, "--json", "--record", "kept")
    assert code == 0, err
    assert json.loads(out)[0]["scores"] == [0, 0, 1]
    code, out, err = troth("verify", "kept", *(["--allow", named] if ":" in named else []))
    assert code == 0, out + err


@pytest.mark.parametrize("way", SOME)
def test_bench_and_verify_of_a_run_on_the_command_line(here, troth, way):
    explainer, metric = EXPLAINERS[way], METRICS[way]
    code, out, err = troth("bench", "-d", "data.jsonl", "-e", explainer, "--metrics", metric, "--out", "run",
                           "--workers", "1", "--json")  # fmt: skip
    assert code == 0, err
    row = next(row for row in json.loads(out)["rows"] if row["explainer"] != "random")
    assert [value["value"] for value in row.values() if isinstance(value, dict)] == [1]
    allowed = [part for name in (explainer, metric) if ":" in name for part in ("--allow", name)]
    code, out, err = troth("verify", "run", "--sample", "9", *allowed)
    assert code == 0, out + err
    assert "not" not in out.split("\n")[0]


@pytest.mark.parametrize("way", SOME)
def test_a_plan_file(here, troth, way):
    explainer, metric = EXPLAINERS[way], METRICS[way]
    (here / "plan.toml").write_text(
        f'models = "embedded"\ndata = "data.jsonl"\nexplainers = "{explainer}"\nmetrics = "{metric}"\n'
    )
    allowed = [part for name in (explainer, metric) if ":" in name for part in ("--allow", name)]
    if allowed:
        code, _, err = troth("sweep", "plan.toml", "--workers", "1")
        assert code == 2
        assert "--allow" in err
    code, out, err = troth("sweep", "plan.toml", "--workers", "1", "--json", *allowed)
    assert code == 0, err
    assert json.loads(out)["complete"]


def test_code_in_a_plan_may_be_allowed_with_commas():
    names = ["my_file.py:Mine(width=3, depth=2)", "my_file.py:other"]
    assert _options._code(",".join(names)) == names
    for whole in ("runs/a,b", "runs/a,my_file.py:other", "https://host/a,https://host/b=KEY"):
        assert _options._code(whole) == [whole]


@pytest.mark.parametrize("way", SOME)
def test_check(here, troth, way):
    named = EXPLAINERS[way]
    code, out, err = troth("check", "-e", named, "--limit", "30", "--step", "0.5", "--json")
    assert code == 0, err
    code, out, err = troth("check", "--randomization", "-d", "data.jsonl", "-e", named, "--json")
    assert code == 0, err
    assert json.loads(out)


def test_list_shows_what_is_installed(here, troth):
    for name in ("last_point", "tail_point", "largest_point", "peak_point"):
        code, out, err = troth("list", name)
        assert code == 0, err
        assert "own-package 1.0" in out


@pytest.mark.full
def test_other_processes_load_what_packages_and_files_offer(here, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{here}:{':'.join(sys.path)}")
    explainers, metrics = [*EXPLAINERS.values()], [*METRICS.values()]
    found = package.bench("embedded", "data.jsonl", explainers, metrics, "run", workers=2)
    assert not found.leaderboard.failures
    assert len(found.leaderboard.explainers) == 5
