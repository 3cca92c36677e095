"""Prompted models on the command line and in sweeps, and the example script."""

import json
import runpy
import sys
from pathlib import Path

import pytest

import fakes
import troth
from troth.store.specs import ModelSpec
from troth.sweep.context import Context

ROOT = Path(__file__).parents[2]
PROMPT = "Is the text good?\nText: {text}\nLabel:"
WORDS = ["good", "bad"]
TEXT = "a good film was bad"


@pytest.fixture
def folder(tmp_path):
    """A tiny GPT-2 as save_pretrained writes it."""
    return fakes.saved_causal(tmp_path / "tiny", "gpt2")


@pytest.fixture
def command(troth):
    return troth


ASKED = ["--prompt", r"Text: {text}\nLabel:", "--class-words", "good,bad"]


def test_explain_on_the_command_line(folder, command):
    code, said, _ = command("explain", TEXT, "-m", folder, *ASKED, "-e", "leave_one_out", "--html", "page.html")
    assert code == 0
    assert f"Text: {TEXT}" in said
    assert "erased words become ' _'" in said
    assert '<span class="prompt"' in Path("page.html").read_text()


def test_another_masking_reaches_all_that_erases(folder, command):
    asked = ("explain", TEXT, "-m", folder, *ASKED, "-e", "leave_one_out", "--masking", "delete")
    _, said, _ = command(*asked)
    assert "erased words become" not in said
    assert "deleted" in said
    _, plain, _ = command(*asked, "--json")
    assert json.loads(plain)[0]["proof"]["masking"] == "delete"


def test_a_long_text_is_said_to_be_cut(folder, command):
    _, said, _ = command("explain", "a good film was bad " * 30, "-m", folder, *ASKED, "-e", "leave_one_out")
    assert "words at the end were cut off: the text is longer than the model reads" in said
    assert "Label:" in said


def test_check_on_the_command_line(folder, command):
    rows = [{"text": f"a {word} film was {word}", "label": 0} for word in ("good", "bad", "the", "a")] * 10
    Path("data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ("--data", "data.jsonl", "--validation-data", "data.jsonl", "--step", "0.5", "--json")
    code, said, problem = command("check", "-m", folder, *ASKED, *options)
    assert code == 0, problem
    assert json.loads(said)["examples"] == 40


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--prompt", "Good?", "--class-words", "good,bad"], "does not contain {text}"),
        (["--prompt", "{text}:"], "class_words must be two or more different words"),
        (["--class-words", "good,bad"], "class_words is for a prompted language model"),
    ],
)
def test_bad_input_is_one_line(folder, command, options, problem):
    code, _, said = command("explain", TEXT, "-m", folder, *options)
    assert code == 2
    assert problem in said
    assert len([line for line in said.splitlines() if "troth:" in line]) == 1


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_bench_carries_the_prompt_to_its_workers(folder, command, tmp_path, workers):
    rows = [{"text": TEXT, "label": 0}, {"text": "a bad film", "label": 1}]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, problem = command(
        "bench", "-m", folder, "-d", "data.jsonl", *ASKED, "--shots", "data.jsonl", "--shot-count", "1",
        "-e", "leave_one_out", "--metrics", "comprehensiveness", "--workers", workers, "--json", "--out", "run",
    )  # fmt: skip
    assert code == 0, problem
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    (model,) = about["models"].values()
    assert model["options"]["mask_text"] == " _"
    assert model["options"]["shots"] == [{"text": TEXT, "text_pair": None, "label": "good"}]
    assert "erased words become ' _'" in model["notes"][0]


def test_a_sweep_knows_a_prompted_model_by_all_its_options(folder):
    context = Context()
    options = {"prompt": PROMPT, "class_words": WORDS, "shots": [troth.Example("0", "a joy", label=0)]}
    spec = context.model_spec(str(folder), options)
    assert spec.model_options["mask_text"] == " _"
    assert spec.model_options["dtype"] == "float32"
    stored = ModelSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
    assert Context().model(stored).fingerprint == spec.model_fingerprint


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    tokenizer = fakes.end_of_text("Positive", "Negative")
    tokenizer.chat_template = "{% for m in messages %}user: {{ m['content'] }}\n{% endfor %}answer:\n"
    tokenizer.model_max_length = 512
    folder = fakes.saved_causal(tmp_path / "tiny", "llama", tokenizer, max_position_embeddings=512)
    script = ROOT / "examples" / "prompted_smollm2.py"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script), str(folder), "out.html"])
    runpy.run_path(str(script), run_name="__main__")
    assert "user: Is this film review Positive or Negative?" in capsys.readouterr().out
    page = (tmp_path / "out.html").read_text()
    assert page.count('class="prompt"') == 8
