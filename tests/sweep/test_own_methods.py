"""Methods of the user's in a bench: their names, their numbers, when they run again, and where they never run."""

import numpy as np
import pytest

import fakes
import troth
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.models.encoder import Encoder
from troth.report.board import leaderboards
from troth.store.cells import Cell
from troth.store.specs import ExplanationSpec
from troth.store.store import Store
from troth.sweep.bench import plan_of
from troth.sweep.context import Context
from troth.sweep.plan_file import PlanFile
from troth.sweep.run import run

DATA = [Example(f"e{number}", text, label=number % 3) for number, text in enumerate(fakes.CORPUS)]
METRICS = ["comprehensiveness(ratio=0.5)", "recursive_erasure(step=0.5)"]
FILE = """
open("ran", "a").write("x")

def score(word):
    return len(word) + {extra}

def mine(text):
    return [score(word) for word in text.split()]

def predict(texts):
    return [[0.9, 0.1] if "bad" in text else [0.2, 0.8] for text in texts]
"""


def model():
    return Encoder(fakes.hf_model("bert"), fakes.tokenizer_for("bert"), name="tiny")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "code.py").write_text(FILE.format(extra=0))
    return tmp_path


def test_every_kind_of_method_in_one_table(here):
    calls = []

    def mine(model, example, target):
        calls.append(example.id)
        return [float(len(word)) for word in example.text.split()]

    computed = troth.explain(model(), DATA, "gradient")
    given = {"mine": mine, "theirs": computed, "loo": "leave_one_out", "file": "code.py:mine"}
    result = troth.bench(model(), DATA, given, METRICS, "run")
    board = result.leaderboard
    assert not board.failures
    assert set(board.explainers) == {"random", "mine", "theirs", "loo", "file"}
    by_hand = {"theirs": "gradient", "loo": "leave_one_out", "mine": mine, "file": mine}
    for name, method in by_hand.items():
        attributions = troth.explain(model(), DATA, method)
        values = [score.value for score in troth.measure(model(), attributions, METRICS[0])]
        np.testing.assert_allclose(board.values[name, METRICS[0]], values, rtol=1e-4, atol=1e-5)
    assert any(line.startswith("mine − ") for line in board.answer())
    assert not any(line.startswith("loo − ") for line in board.answer())
    calls.clear()
    again = troth.bench(model(), DATA, given, METRICS, "run")
    assert again.outcome.computed == 0
    assert not calls


def test_changed_code_gives_new_cells_and_old_ones_are_not_shown(here):
    first = troth.bench(model(), DATA, {"mine": "code.py:mine"}, ["sparsity"], "run")
    (here / "code.py").write_text(FILE.format(extra=7))
    second = troth.bench(model(), DATA, {"mine": "code.py:mine"}, ["sparsity"], "run")
    assert second.outcome.computed == 2  # the explanation and its metric; random is kept
    values = [result.leaderboard.values["mine", "sparsity"] for result in (first, second)]
    assert not np.allclose(*values)
    (board,) = leaderboards(Store("run"))
    np.testing.assert_array_equal(board.values["mine", "sparsity"], values[1])


@pytest.mark.full
def test_code_in_a_file_runs_in_other_processes(here):
    result = troth.bench("code.py:predict", DATA[:2], ["code.py:mine"], ["sparsity"], "run", workers=2)
    assert not result.leaderboard.failures
    assert result.leaderboard.model == "code.py:predict"
    assert len((here / "ran").read_text()) >= 2  # here and in a worker
    alone = troth.bench("code.py:predict", DATA[:2], ["code.py:mine"], ["sparsity"], "alone")
    assert (
        alone.leaderboard.values["mine", "sparsity"].tolist() == result.leaderboard.values["mine", "sparsity"].tolist()
    )


def test_a_method_in_memory_stays_in_this_process(here):
    with pytest.raises(TrothError, match=r"the method mine is in memory, .* or use 1 worker"):
        troth.bench("embedded", DATA[:2], {"mine": lambda text: [0.0]}, ["sparsity"], "run", workers=2)


@pytest.mark.parametrize(
    "line", ['explainers = ["code.py:mine"]', 'models = ["code.py:predict"]', 'metrics = ["os:getcwd"]']
)
def test_a_plan_file_runs_no_code(here, line):
    content = {"models": '["embedded"]', "data": '"reviews"', "explainers": '["random"]', "metrics": '["sparsity"]'}
    content[line.partition(" ")[0]] = line.partition("= ")[2]
    (here / "plan.toml").write_text("limit = 2\n" + "".join(f"{key} = {value}\n" for key, value in content.items()))
    with pytest.raises(TrothError, match=r"plan.toml, line \d: .* is code, which runs only where you name it yourself"):
        PlanFile.read("plan.toml").plan(Context())
    assert not (here / "ran").exists()


def test_cells_that_name_code_do_not_run_it(here):
    plan = plan_of(Context(), "embedded", DATA[:2], ["code.py:mine"], ["sparsity"])
    (here / "ran").unlink()
    outcome = run(plan, Store("run"), context=Context())  # another process, or another day: nobody named it here
    (failed,) = outcome.failed
    assert "code.py:mine is code, which runs only where you name it yourself" in failed.error
    specs = {**next(plan.of("explanation")).specs, "model": "code.py:predict", "model_fingerprint": None}
    with pytest.raises(TrothError, match="is code"):
        Context().model(ExplanationSpec.of(Cell("explanation", specs)))
    assert not (here / "ran").exists()


def test_a_stored_run_is_read_without_its_code(here):
    troth.bench(model(), DATA, {"mine": "code.py:mine"}, ["sparsity"], "run")
    (here / "code.py").write_text("open('ran', 'w').write('evil')")
    (here / "ran").unlink()
    (board,) = leaderboards(Store("run"))
    assert "mine" in board.explainers
    assert not (here / "ran").exists()


def test_attributions_that_do_not_match_the_data_are_refused_before_anything_is_stored(here):
    attributions = troth.explain(model(), DATA[:3], "gradient")
    with pytest.raises(TrothError, match="theirs: 4 of 7 examples have no attribution; the first one is e3"):
        troth.bench(model(), DATA, {"theirs": attributions}, ["sparsity"], "run")
    assert not (here / "run").exists()
