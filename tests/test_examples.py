"""Every example that people paste runs where what it needs is installed, and sees what decides."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import troth

ROOT = Path(__file__).parents[1]
EMBEDDED = Path(troth.__file__).parent / "models" / "embedded_model"
NEEDS = {
    "sklearn_pipeline": ("sklearn", []), "spacy_classifier": ("spacy", []), "onnx_session": ("onnxruntime", []),
    "sentence_transformers_head": ("sentence_transformers", [str(EMBEDDED)]),
}  # fmt: skip


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*.py")), ids=lambda path: path.stem)
def test_they_are_short(path):
    assert path.stem in {*NEEDS, "gradio_app", "prompted_smollm2"}, "an example without a test"
    if path.stem != "prompted_smollm2":
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 30


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
