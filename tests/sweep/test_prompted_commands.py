"""Prompted models on the command line and in sweeps, and the example script."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fakes
import troth
from troth.sweep.context import Context

ROOT = Path(__file__).parents[2]
PROMPT = "Is the text good?\nText: {text}\nLabel:"
WORDS = ["good", "bad"]
TEXT = "a good film was bad"


@pytest.fixture
def folder(tmp_path):
    """A tiny GPT-2 as save_pretrained writes it."""
    return fakes.saved_causal(tmp_path / "tiny", "gpt2")


def troth_command(*arguments, cwd=None):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [sys.executable, "-m", "troth", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
        check=False,
    )


ASKED = ["--prompt", r"Text: {text}\nLabel:", "--class-words", "good,bad"]


def test_explain_on_the_command_line(folder, tmp_path):
    page = tmp_path / "page.html"
    run = troth_command("explain", TEXT, "-m", str(folder), *ASKED, "-e", "leave_one_out", "--html", str(page))
    assert run.returncode == 0, run.stderr
    assert f"Text: {TEXT}" in run.stdout
    assert "erased words become ' _'" in run.stdout
    assert run.stderr == ""
    assert '<span class="prompt"' in page.read_text()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--prompt", "Good?", "--class-words", "good,bad"], "holds no {text}"),
        (["--prompt", "{text}:", "--class-words", "good,awful"], "class word 'awful' is not one token"),
        (["--prompt", "{text}:"], "class_words must be two different words or more"),
        (["--class-words", "good,bad"], "class_words goes with a prompt"),
    ],
)
def test_bad_input_is_one_line(folder, options, problem):
    run = troth_command("explain", TEXT, "-m", str(folder), *options)
    assert run.returncode == 2
    assert problem in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1


def test_bench_carries_the_prompt_to_its_workers(folder, tmp_path):
    rows = [{"text": TEXT, "label": 0}, {"text": "a bad film", "label": 1}]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = troth_command(
        "bench", "-m", str(folder), "-d", "data.jsonl", *ASKED, "--shots", "data.jsonl", "--shot-count", "1",
        "-e", "leave_one_out", "--metrics", "comprehensiveness", "--workers", "2", "--json", "--out", "run",
        cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    (model,) = about["models"].values()
    assert model["options"]["mask_text"] == " _"
    assert model["options"]["shots"] == [{"text": TEXT, "text_pair": None, "label": "good"}]
    assert "erased words become ' _'" in model["notes"][0]


def test_a_sweep_knows_a_prompted_model_by_all_its_options(folder):
    context = Context()
    options = {"prompt": PROMPT, "class_words": WORDS, "shots": [troth.Example("0", "a joy", label=0)]}
    specs = context.model_specs(str(folder), options)
    assert specs["model_options"]["mask_text"] == " _"
    other = Context()
    assert other.model(json.loads(json.dumps(specs))).fingerprint == specs["model_fingerprint"]


def test_the_example_runs(tmp_path):
    tokenizer = fakes.end_of_text("Positive", "Negative")
    tokenizer.chat_template = "{% for m in messages %}user: {{ m['content'] }}\n{% endfor %}answer:\n"
    tokenizer.model_max_length = 512
    folder = fakes.saved_causal(tmp_path / "tiny", "llama", tokenizer, max_position_embeddings=512)
    script = ROOT / "examples" / "prompted_smollm2.py"
    run = run_python(str(script), str(folder), "out.html", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "user: Is this film review Positive or Negative?" in run.stdout
    page = (tmp_path / "out.html").read_text()
    assert page.count('class="prompt"') == 8
