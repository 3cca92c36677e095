"""Every example that people paste runs where what it needs is installed, and sees what decides."""

import copy
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import fakes
import troth

ROOT = Path(__file__).parents[1]
EMBEDDED = Path(troth.__file__).parent / "models" / "embedded_model"
NEEDS = {
    "sklearn_pipeline": ("sklearn", []), "spacy_classifier": ("spacy", []), "onnx_session": ("onnxruntime", []),
    "sentence_transformers_head": ("sentence_transformers", [str(EMBEDDED)]),
}  # fmt: skip
SHOWN = {  # those that need nothing else, and what they print
    "explain_one_text": ("'wonderful': 2.98", "without its top fifth: 98% -> "),
    "choose_a_method": ("| leave_one_out | ", "| random | "),
    "trust_a_number": ("in distribution",),
    "own_method": ("longest", "leave_one_out beats longest"),
    "own_data": ("positive {'Best': ", "negative {'Cold': ", "positive {'I': "),
    "gate_in_ci": ("met: leave_one_out beats random",),
}


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*.py")), ids=lambda path: path.stem)
def test_they_are_short(path):
    assert path.stem in {*NEEDS, *SHOWN, "cite_passages", "gradio_app", "prompted_smollm2"}, "an example without a test"
    if path.stem != "prompted_smollm2":
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 30


def run(name, monkeypatch, capsys, *arguments):
    """What an example prints that is run in this process."""
    monkeypatch.setattr("sys.argv", [f"{name}.py", *arguments])
    try:
        runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    except SystemExit as ended:
        assert not ended.code
    return capsys.readouterr().out


QUICK = ("explain_one_text", "own_data")  # a bench or a check takes seconds


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.full) for name in SHOWN]
)
def test_a_task_of_the_guide_in_one_script(name, monkeypatch, capsys):
    printed = run(name, monkeypatch, capsys)
    assert [part for part in SHOWN[name] if part not in printed] == [], printed


def test_passages_are_cited_with_a_tiny_model(tmp_path, monkeypatch, capsys):
    tokenizer = copy.deepcopy(fakes.causal_tokenizer("llama"))
    tokenizer.model_max_length = 512
    folder = fakes.saved_causal(tmp_path, "llama", tokenizer, max_position_embeddings=512)
    printed = run("cite_passages", monkeypatch, capsys, str(folder))
    assert re.fullmatch(r"cited: \[.*\] scores: \[-?\d+\.\d+(, -?\d+\.\d+){3}\]\n", printed)


@pytest.mark.full
@pytest.mark.parametrize("name", NEEDS)
def test_it_runs(name, tmp_path):
    package, arguments = NEEDS[name]
    pytest.importorskip(package, reason=f"{package} is not installed")
    if name == "onnx_session":
        pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), *arguments]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    (scores,) = [eval(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert list(scores) == ["A", "slow", "start", ",", "but", "what", "a", "wonderful", "ending", "."]
    assert any(scores.values())
    if name in ("sklearn_pipeline", "onnx_session"):  # the others have learnt little from so few texts
        assert scores["wonderful"] > max(scores["A"], scores["slow"], scores["what"], scores["a"]), scores
    if name == "sklearn_pipeline":
        assert "met: leave_one_out beats random" in done.stdout


@pytest.mark.full
def test_the_gradio_app_starts_and_answers(monkeypatch):
    pytest.importorskip("gradio", reason="gradio is not installed")
    client = pytest.importorskip("gradio_client")
    monkeypatch.setattr("sys.argv", ["gradio_app.py"])
    monkeypatch.setenv("GRADIO_ANALYTICS_ENABLED", "False")
    app = runpy.run_path(str(ROOT / "examples" / "gradio_app.py"))["app"]
    _, url, _ = app.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    try:
        page = client.Client(url, verbose=False).predict("A wonderful film.", api_name="/explain")
    finally:
        app.close()
    assert "wonderful</span>" in page
    assert "leave_one_out" in page
    assert "integrated_gradients" in page
