"""CONTRIBUTING's examples work as they stand: each is one new file, known everywhere, with nothing else touched.

All of them are put into one copy of the package, so that two processes are enough: one is the command line, one the
contract tests and the docs.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

import fakes
import troth

ROOT = Path(__file__).parent.parent
SOURCE = Path(troth.__file__).parent
BLOCK = re.compile(r"Write `src/troth/([\w/]+\.py)`:\n\n```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
BLOCKS = dict(BLOCK.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))

CALLS = """
import json, sys
from typer.testing import CliRunner
from troth.cli import app
output = {}
for name, arguments in json.loads(sys.argv[1]).items():
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "200", "TERM": "dumb"})
    output[name] = done.stdout if done.exit_code == 0 else f"FAILED: {done.exception!r} {done.output}"
json.dump(output, open(sys.argv[2], "w"))
"""
# The contract tests of one kind of model, on the new names alone; then what the docs say of them.
CHECKS = """
import importlib.util, json, pathlib, sys
import pytest

class Seen:
    outcomes = {}
    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.nodeid.split("::")[1]] = report.outcome

files = ["contract/test_explainers.py", "contract/test_metrics.py", "contract/test_maskings.py",
         "contract/test_recipes.py", "data/test_entries.py", "commands/test_cli.py"]
new = "shown_alone or lost_share or average or irony or confidence_penalty or every_command_has_help and units"
others = "roberta or albert or electra or deberta or modernbert or prompted or llama or bilstm"
pytest.main(["-q", "-p", "no:cacheprovider", "-k", f"({new}) and not ({others})", *[f"tests/{f}" for f in files]],
            plugins=[Seen()])
spec = importlib.util.spec_from_file_location("document", "scripts/docs/document.py")
document = sys.modules["document"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(document)
pages = {"explainer": document.explainer_entry("shown_alone"), "metric": document.metric_entry("lost_share"),
         "catalog": document.maskings_page() + document.catalog_page()}
pathlib.Path(sys.argv[1]).write_text(json.dumps({"tests": Seen.outcomes, "pages": pages}))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the package with all the new files, a tiny model, a data file and a data set's folder."""
    base = tmp_path_factory.getbasetemp()
    # Processes that share the tests share the copy, too, and what is printed there.
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "copy"
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            fill(folder)
    return folder


def fill(folder):
    shutil.copytree(SOURCE, folder / "source" / "troth", ignore=shutil.ignore_patterns("__pycache__"))
    for path, code in BLOCKS.items():
        assert not (folder / "source" / "troth" / path).exists()
        (folder / "source" / "troth" / path).write_text(code)
    fakes.hf_model(classes=2).save_pretrained(folder / "model")
    fakes.tokenizer_for("bert").save_pretrained(folder / "model")
    (folder / "irony").mkdir()
    for split in ("train", "validation", "test"):
        rows = [{"text": text, "label": number % 2} for number, text in enumerate(fakes.CORPUS)]
        (folder / "irony" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def output(folder, name, code, *arguments):
    """What a process that imports the copy writes."""
    with FileLock(f"{folder}.lock"):
        if not (folder / name).is_file():
            run(folder, code, *arguments, folder / name)
    return json.loads((folder / name).read_text())


def run(folder, code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder / "source"), "TROTH_DATA": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def printed(copy):
    """What the command line prints, by call."""
    model = ["--model", str(copy / "model")]
    bench = [
        *model,
        "--data",
        "irony",
        "--limit",
        "3",
        "-e",
        "shown_alone",
        "--metrics",
        "lost_share",
        "--workers",
        "1",
    ]
    base = ["--base", "bilstm_attention(embedding=8, hidden=8)", "--epochs", "1", "--cpu"]
    calls = {
        "help": ["--help"],
        "list": ["list", "--json"],
        "explain": ["explain", "a good film", *model, "-e", "shown_alone", "--masking", "average", "--json"],
        "bench": ["bench", *bench, "--metrics", "comprehensiveness(masking=average)", "--json", "--out", copy / "run"],
        "train": ["train", "confidence_penalty", "--data", "irony", *base, "--out", copy / "trained", "--json"],
        "units": ["units", "Don't stop.", *model],
    }
    return output(copy, "printed.json", CALLS, json.dumps(calls, default=str))


@pytest.fixture(scope="module")
def checked(copy):
    """The outcomes of the contract tests, and the new parts of the docs."""
    return output(copy, "checked.json", CHECKS)


def test_there_is_an_example_of_each():
    folders = [str(Path(path).parent) for path in BLOCKS]
    assert folders == ["explainers", "metrics", "maskings", "data", "training/recipes", "commands"]


def test_lists_name_them_with_their_first_sentence(printed):
    listed = json.loads(printed["list"])
    for path, code in BLOCKS.items():
        if not path.startswith("commands/"):
            kind = {"data": "datasets"}.get(Path(path).parent.name, Path(path).parent.name)
            assert listed[kind][Path(path).stem] == code.split('"""')[1]
    assert "Shows the units of a text" in printed["help"]


def test_explain_runs_the_explainer_and_the_masking(printed):
    (attribution,) = json.loads(printed["explain"])
    assert attribution["units"] == ["a", "good", "film"]
    assert attribution["explainer"].startswith("shown_alone(")
    assert len({round(score, 6) for score in attribution["scores"]}) == 3  # so the model was asked


def test_bench_measures_with_the_metric_on_the_data(printed):
    board = json.loads(printed["bench"])
    assert {row["explainer"] for row in board["rows"]} == {"random", "shown_alone"}
    values = {metric: value["value"] for metric, value in board["rows"][0].items() if isinstance(value, dict)}
    assert set(values) == {"lost_share", "comprehensiveness(masking='average')"}
    assert all(values.values())  # neither undefined nor 0: something was erased and the model asked
    assert board["data"] == "irony"


def test_train_uses_the_recipe(printed):
    report = json.loads(printed["train"])
    assert report["identity"]["recipe"] == "confidence_penalty(weight=0.1)"
    assert report["identity"]["labels"] == ["not ironic", "ironic"]


def test_the_command_runs(printed):
    assert printed["units"] == "Don't | stop | .\n"


EXPECTED = {
    "shown_alone": [
        "test_explainer[shown_alone-bert]", "test_explainer[shown_alone-black_box]", "test_edges[shown_alone]",
    ],
    "lost_share": ["test_metric[lost_share-bert]", "test_empty_and_one_word_texts[lost_share]"],
    "average": ["test_masking[average-bert]", "test_tokens_in_no_unit_are_untouched[bert-average]"],
    "irony": ["test_an_entry_says_what_it_is[irony]", "test_a_local_folder_with_our_columns_or_the_hubs[plain-irony]"],
    "confidence_penalty": ["test_recipe[confidence_penalty-model]"],
    "units": ["test_every_command_has_help_with_an_example[units]"],
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("name", EXPECTED)
def test_the_contract_tests_hold_it_to_what_is_asked_of_all(checked, name):
    outcomes = checked["tests"]
    assert {test: outcomes.get(test) for test in EXPECTED[name]} == dict.fromkeys(EXPECTED[name], "passed")
    assert "failed" not in {outcome for test, outcome in outcomes.items() if name in test}


@pytest.mark.full
def test_the_docs_describe_them(checked):
    row, section = checked["pages"]["explainer"]
    assert row == "| [shown_alone](#shown_alone) | yes | n + 1 | every encoder, prompted language models, black boxes |"
    assert section[1].endswith("the mirror image of leave-one-out.")
    row, section = checked["pages"]["metric"]
    assert row == "| [lost_share](#lost_share) | ↑ | at most 1 | delete | 2 |"
    for path in BLOCKS:
        if Path(path).parent.name not in ("explainers", "metrics"):
            shown = "troth units" if path == "commands/units.py" else Path(path).stem
            assert f"| `{shown}` |" in checked["pages"]["catalog"]
