"""With `pip install .` alone, everything works but what needs an extra, and that says so in one line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = (
    "datasets", "matplotlib", "duckdb", "fastapi", "uvicorn", "ray", "peft", "optuna", "gguf", "mlflow", "wandb",
    "spacy", "pandas", "captum", "networkx", "IPython",
)  # fmt: skip
SMALL = ("-e", "gradient", "--metrics", "comprehensiveness", "--limit", "4", "--workers", "1")
WORKS = [
    ("explain", "A wonderful film.", "-e", "leave_one_out,gradient", "--html", "why.html"),
    ("bench", *SMALL, "--out", "runs/one"), ("bench", *SMALL, "--seed", "1", "--out", "runs/two"),
    ("report", "runs/one"), ("diff", "runs/one", "runs/two"),
    ("diff", "runs/one", "runs/two", "--texts", "--html", "moved.html"), ("runs",), ("list", "explainers"),
    ("check", "-e", "random", "--limit", "30"), ("doctor",),
]  # fmt: skip
NEEDS = [  # the extra, and what asks for it
    ("sql", ("query", "runs/one", "select count(*) from scores")),
    ("figures", ("report", "runs/one", "--figures", "drawn")),
    ("figures", ("study", "truth", "--out", "study")),
    ("hub", ("bench", "--data", "stanfordnlp/imdb", *SMALL, "--out", "runs/hub")),
    ("hub", ("bench", "--data", "saved", *SMALL, "--out", "runs/saved")),
    ("serve", ("serve",)),
    ("mlflow", ("bench", *SMALL, "--log", "mlflow", "--out", "runs/mlflow")),
    ("wandb", ("bench", *SMALL, "--log", "wandb", "--out", "runs/wandb")),
    ("peft", ("explain", "A wonderful film.", "-m", "adapter")),
    ("gguf", ("explain", "A wonderful film.", "-m", "model.gguf", "--prompt", "{text} It is", "--class-words", "a,b")),
]
# Runs every command line of standard input in one process that cannot import the extras.
BARE = """
import contextlib, io, json, sys
from importlib.machinery import PathFinder

missing = set(json.loads(sys.argv[1]))

class Bare(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in missing else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Bare
from troth.cli import main
for line in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["troth", *line]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as left:
            code = left.code or 0
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """What a command line does where no extra is installed: (exit code, standard output, standard error)."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "saved").mkdir()
    (folder / "saved" / "state.json").write_text("{}")
    (folder / "saved" / "dataset_info.json").write_text("{}")
    (folder / "saved" / "data-00000-of-00001.arrow").write_bytes(b"")
    (folder / "adapter").mkdir()
    (folder / "adapter" / "adapter_config.json").write_text("{}")
    (folder / "model.gguf").write_bytes(b"GGUF\3\0\0\0" + b"\0" * 16)
    lines = [*WORKS, *(line for _, line in NEEDS)]
    done = subprocess.run(
        [sys.executable, "-c", BARE, json.dumps(MODULES)], input=json.dumps(lines), cwd=folder, text=True, check=False,
        capture_output=True, env={**os.environ, "TROTH_DATA": str(folder / "nothing"), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(lines), done.stderr
    return dict(zip(lines, found, strict=True))


@pytest.mark.parametrize("line", WORKS, ids=" ".join)
def test_it_works_without_any_extra(line, bare):
    code, _, err = bare[line]
    assert code == 0, err


@pytest.mark.parametrize(("extra", "line"), NEEDS, ids=lambda value: value if isinstance(value, str) else value[0])
def test_what_needs_an_extra_names_it_in_one_line(extra, line, bare):
    code, _, err = bare[line]
    assert (code, err.count("\n")) == (2, 1), err
    assert f"pip install 'troth[{extra}]'" in err
