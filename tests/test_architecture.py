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
    "refereeing": "is an attribution function right? properties on models with known answers",
    "sweep": "who does the work: plans, processes, Ray; bench",
    "studies": "one file or folder per paper",
    "serve": "the local page and its API",
    "commands": "one file per command",
    "cli": "the command line",
}
LAYERS = list(ROOMS)
METHODS = {"explainers", "metrics", "maskings", "training/bases", "training/recipes", "studies"}


def imports_of(path: Path) -> set[str]:
    """The parts of troth a file imports, also inside functions and by name; those for type checking left out."""
    tree = ast.parse(path.read_text())
    hidden = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for node in ast.walk(branch)
    }
    named = set()
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            named |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node).partition("(")[0].endswith("import_module"):
            named |= {part.value for part in node.args if isinstance(part, ast.Constant)}
    return {name.split(".")[1] for name in named if name.startswith("troth.")}


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_imports_point_upwards():
    wrong = []
    for path in SOURCE.rglob("*.py"):
        part = part_of(path)
        if part in ("__init__", "__main__"):
            continue
        assert part in LAYERS, f"{part} has no place in the architecture"
        for other in imports_of(path) - {"__version__"}:
            if LAYERS.index(other) > LAYERS.index(part):
                wrong.append(f"{path.relative_to(SOURCE)} imports {other}")
    assert not wrong, wrong


# Calls that read a file, or parse what may be one. Only `core/reading.py` makes them for files that users name.
READS = {"open", "read_text", "read_bytes", "load", "loads", "decompress"}
READS |= {"ParquetFile", "read_table", "reader", "DictReader"}
MODULES = {"json", "tomllib", "gzip", "zlib", "bz2", "lzma", "pq", "parquet", "csv", "io", "os"}
# Others may, each for its reason.
READERS = {
    "core/reading.py": "the one reader",
    "core/catalog.py": "the package's own files",
    "core/files.py": "writes",
    "core/hashing.py": "bytes of regular files, in pieces",
    "core/locks.py": "the first thousand bytes of a lock",
    "core/terminal.py": "standard streams",
    "cli.py": "standard streams",
    "commands/list.py": "the package's own files",
    "commands/serve.py": "an answer of at most a megabyte, from this machine",
    "data/reviews.py": "the package's own files",
    "data/sources/readers.py": "rows of lines that the reader gave, and Parquet after its size was checked",
    "models/__init__.py": "the package's own files",
    "models/_asking.py": "answers that were written here, read one line at a time",
    "models/_endpoint.py": "what a server says",
    "models/_tokenizer_trial.py": "a process of its own, which imports nothing of the package",
    "report/citing.py": "the package's own files",
    "report/run_page.py": "the package's own files",
    "store/claims.py": "claims, and facts of the system",
    "store/segments.py": "the store's own files, sealed by their hash",
    "store/sql_process.py": "facts of the system",
    "store/tables.py": "columns of the store",
    "studies/__init__.py": "what was just written as JSON",
    "studies/_writing.py": "what was just written as JSON, and tables of an earlier call to compare with",
    "studies/fmm/_experiment.py": "columns of the store",
    "studies/published/__init__.py": "the package's own files",
    "sweep/machine.py": "facts of the system",
    "sweep/ray_pool.py": "facts of the system",
    "training/record.py": "what was just written as JSON",
    "sweep/verify_run.py": "columns of the store",
    "verbs/fit.py": "what was just written as JSON",
    "verbs/verify.py": "what was just written as JSON",
}


def reads_in(path: Path) -> set[str]:
    calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    found = set()
    for called in calls:
        if isinstance(called, ast.Name) and called.id == "open":
            found.add("open")
        elif isinstance(called, ast.Attribute) and called.attr in READS:
            owner = called.value.attr if isinstance(called.value, ast.Attribute) else getattr(called.value, "id", None)
            if called.attr in ("read_text", "read_bytes") or owner in MODULES:
                found.add(f"{owner}.{called.attr}")
    return found


def test_files_that_users_name_are_read_in_one_place():
    reading = {str(path.relative_to(SOURCE)): reads_in(path) for path in SOURCE.rglob("*.py")}
    unbounded = {name: sorted(calls) for name, calls in reading.items() if calls and name not in READERS}
    assert not unbounded, f"read these through troth.core.reading: {unbounded}"
    assert not [name for name in READERS if not reading.get(name)], "these need no exception any more"


def test_no_class_name_is_used_twice_outside_of_the_catalogs():
    seen: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        # A method's class is named after its file, whatever room it is in.
        is_method = not path.stem.startswith("_") and str(path.parent.relative_to(SOURCE)) in METHODS
        for node in [] if is_method else ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                seen.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    assert {name: places for name, places in seen.items() if len(places) > 1} == {}
