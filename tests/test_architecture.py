"""Imports point only upwards in the list of the architecture."""

import ast
from pathlib import Path

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
    "serve": "the local page and its API",
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
