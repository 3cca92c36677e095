"""Imports point only upwards in the list of the architecture, and a new method is one new file."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import troth

SOURCE = Path(troth.__file__).parent

# The rooms, top first: a file imports only from its own room or from rooms above it.
ROOMS = {
    "core": "the words everything speaks: examples, units, errors, catalogs, random draws",
    "data": "examples from data sets and files",
    "models": "classifiers behind one protocol",
    "maskings": "how a unit is erased",
    "engine": "what does the model say if only this much is kept?",
    "statistics": "intervals, tests, combination of p-values",
    "performance": "accuracy, F1 and Matthews, from weighted counts",
    "seeds": "one reduction over examples and seeds",
    "salience": "importance without a model",
    "training": "one loop, recipes, bases, presets",
    "attribution_model": "AML: the attribution model, its losses, fitting and search",
    "explainers": "one file per method",
    "metrics": "one file per metric, formulas, diagnosticity",
    "verbs": "explain, measure, import scores, fit, extract rationales",
    "validity": "are erased inputs in distribution?",
    "store": "results on disk",
    "report": "numbers, tables and pages from the store",
    "sweep": "who does the work: plans, processes, Ray; bench",
    "studies": "one file or folder per paper",
    "commands": "one file per command",
    "cli": "the command line",
}
LAYERS = list(ROOMS)

# What would be a cycle otherwise, each with its reason.
ALLOWED = {
    ("core", "verbs"),  # Attribution.from_scores is part of the contract and needs the model's answer
    ("core", "report"),  # an attribution shows itself in a notebook
}


def imports_of(path: Path) -> set[str]:
    """The parts of troth a file imports, those for type checking left out."""
    tree = ast.parse(path.read_text())
    hidden = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for node in ast.walk(branch)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in hidden or not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if node.module == "troth":
            found |= {alias.name for alias in node.names}
        elif node.module.startswith("troth."):
            found.add(node.module.split(".")[1])
    return found


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_imports_point_upwards():
    wrong = []
    for path in SOURCE.rglob("*.py"):
        part = part_of(path)
        if part in ("__init__", "__main__", "_moved"):
            continue
        assert part in LAYERS, f"{part} has no place in the architecture"
        for other in imports_of(path) - {"__version__"}:
            if LAYERS.index(other) > LAYERS.index(part) and (part, other) not in ALLOWED:
                wrong.append(f"{path.relative_to(SOURCE)} imports {other}")
    assert not wrong, wrong


NEW_EXPLAINER = '''"""The length of the word: no explanation at all, but every part of troth must know of it."""

from dataclasses import dataclass
from typing import ClassVar

from troth.explainers import Explainer
from troth.types import Attribution


@dataclass(frozen=True)
class WordLength(Explainer):
    signed: ClassVar[bool] = False
    asks_model: ClassVar[bool] = False

    def ask(self, question):
        yield from ()
        return Attribution(question, [float(len(text)) for text in question.encoding.unit_texts], signed=False)
'''


@pytest.fixture
def with_new_file(tmp_path):
    """A copy of the source with one more file in it."""
    shutil.copytree(SOURCE, tmp_path / "troth", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "troth" / "explainers" / "word_length.py").write_text(NEW_EXPLAINER)
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


def output_of(environment, *command):
    run = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=SOURCE.parents[1], check=False)
    assert run.returncode in (0, 5), run.stderr
    return run.stdout


def test_a_new_file_is_a_new_explainer_everywhere(with_new_file):
    troth_command = (sys.executable, "-m", "troth")
    assert "word_length" in output_of(with_new_file, *troth_command, "list", "explainers")
    said = output_of(with_new_file, *troth_command, "explain", "a fine film", "-e", "word_length", "--json")
    assert json.loads(said)[0]["scores"] == [1.0, 4.0, 4.0]
    contract = ("tests/contract", "--collect-only", "-k", "word_length")
    collected = output_of(with_new_file, sys.executable, "-m", "pytest", *contract)
    assert "test_explainer[word_length-bert]" in collected
    assert "test_explainer[word_length-black_box]" in collected
