"""Metrics of the user's, in every way to name them: the same numbers, stored, read again without their code."""

import json
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

import fakes
import troth
from troth.core import trust
from troth.core.errors import TrothError
from troth.core.types import Example, Score
from troth.data import Data
from troth.metrics import Metric
from troth.metrics._erasing import AtRatio
from troth.metrics.recursive_erasure import RecursiveErasure
from troth.models.encoder import Encoder
from troth.report.answer import findings
from troth.report.board import leaderboards, mean_rank
from troth.store.store import Store
from troth.sweep.verify_run import verify_run

DATA = [Example(f"e{number}", text, label=number % 3) for number, text in enumerate(fakes.CORPUS)]
FILE = '''
from dataclasses import dataclass
from troth.metrics._erasing import AtRatio

open("ran", "a").write("x")

@dataclass(frozen=True)
class LostShare(AtRatio):
    """The share of the probability that is lost."""
    higher_is_better = True

    def values(self, full, left, empty):
        return (full - left) / full

def longest(example, attribution):
    scores = attribution.scores
    return len(attribution.units[int(scores.argmax())]) + {extra} if len(scores) else None

longest.higher_is_better = False
'''


@dataclass(frozen=True)
class LostShare(AtRatio):
    higher_is_better = True

    def values(self, full, left, empty):
        return (full - left) / full


@dataclass(frozen=True)
class PerText(Metric):
    """The option is chosen by the data, so each data set has a metric of its own."""

    higher_is_better = True
    texts: int = 0

    def settled(self, explainers, data):
        return replace(self, texts=len(data))

    def ask(self, questions, attributions, explain):
        yield from ()
        return [Score(1 / self.texts) for _ in questions]


def model():
    return Encoder(fakes.hf_model("bert"), fakes.tokenizer_for("bert"), name="tiny")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(FILE.replace("{extra}", "0"))
    return tmp_path


def longest(attribution):
    return max(attribution.units, key=len, default="").__len__()


def test_objects_classes_functions_and_files_are_measured_alike(here):
    attributions = troth.explain(model(), DATA, "leave_one_out")
    full, erased = (
        [score.value for score in troth.measure(model(), attributions, name)]
        for name in ("sufficiency(ratio=1.0)", "comprehensiveness(ratio=0.5)")
    )
    assert np.allclose(full, 0)  # all is kept: what follows needs the probability itself
    whole = np.array([attribution.probabilities[attribution.target] for attribution in attributions])
    by_hand = np.array(erased) / whole
    for metric in (LostShare(ratio=0.5), "mine.py:LostShare(ratio=0.5)"):
        values = [score.value for score in troth.measure(model(), attributions, metric)]
        np.testing.assert_allclose(values, by_hand, rtol=1e-5, atol=1e-6)
    given = [LostShare(ratio=0.5), LostShare, longest, "mine.py:LostShare(ratio=0.5)", "mine.py:longest"]
    with pytest.raises(TrothError, match="two metrics are called"):
        troth.bench(model(), DATA, ["leave_one_out"], ["mine.py:longest", longest], "other")
    board = troth.bench(model(), DATA, ["leave_one_out"], given[1:2] + given[3:], "run").leaderboard
    assert not board.failures
    names = ["lost_share", "lost_share(ratio=0.5)", "longest"]
    assert sorted(board.metrics) == sorted(names)
    np.testing.assert_allclose(board.values["leave_one_out", names[1]], by_hand, rtol=1e-4, atol=1e-5)
    assert (board.directions["longest"], board.directions["lost_share"]) == (False, True)
    assert board.stamps[names[1]].why == "MaSF says nothing of inputs erased by delete"


def test_code_in_a_file_may_have_the_name_of_a_metric_of_the_catalog(here):
    (here / "mine.py").write_text(FILE.replace("{extra}", "0").replace("LostShare", "Sparsity"))
    board = troth.bench(model(), DATA, ["leave_one_out"], ["mine.py:Sparsity", "sparsity"], "run").leaderboard
    assert not board.failures
    assert board.metrics == ("mine.py:Sparsity", "sparsity")


def test_a_function_says_whether_verdicts_rest_on_it(here):
    def first_word(attribution):
        return float(attribution.scores[0]) if len(attribution.scores) else None

    board = troth.bench(model(), DATA, ["leave_one_out"], [first_word, longest], "decides").leaderboard
    assert board.reported == {}
    first_word.measures = "plausibility"
    board = troth.bench(model(), DATA, ["leave_one_out"], [first_word, longest], "shown").leaderboard
    assert board.reported == {"first_word": "plausibility, not faithfulness"}
    (read,) = leaderboards(Store("shown"))
    assert read.reported == board.reported
    first_word.measures = "beauty"
    with pytest.raises(TrothError, match=r"first_word\.measures must be faithfulness, plausibility, stability"):
        troth.bench(model(), DATA, ["leave_one_out"], [first_word], "neither")


def test_a_difference_is_said_once(here):
    def mine(text):
        return [float(len(word)) for word in text.split()]

    given = {"mine": mine, "loo": "leave_one_out"}
    board = troth.bench("embedded", "reviews", given, ["comprehensiveness"], "once", limit=12).leaderboard
    said = [line for line in findings(board) if "mine − loo: " in line or "loo − mine: " in line]
    assert len(said) == 1


def test_a_run_is_read_again_without_the_code(here):
    metrics = ["mine.py:LostShare(masking=mask_token)", "mine.py:longest", "sparsity"]
    first = troth.bench(model(), DATA, ["leave_one_out"], metrics, "run")
    assert troth.bench(model(), DATA, ["leave_one_out"], metrics, "run").outcome.computed == 0
    (here / "mine.py").unlink()
    (board,) = leaderboards(Store("run"))
    for key, summary in board.summaries.items():
        before = first.leaderboard.summaries[key]
        assert (summary.value, summary.low, summary.high) == (before.value, before.low, before.high)
    assert board.directions == first.leaderboard.directions
    assert "lost_share by mask_token" in {column.name for column in board.sheet().columns}
    (here / "mine.py").write_text(FILE.replace("{extra}", "5"))
    again = troth.bench(model(), DATA, ["leave_one_out"], metrics, "run")
    assert again.outcome.computed > 0
    low, high = (each.leaderboard.summaries["leave_one_out", "longest"].value for each in (first, again))
    assert high == pytest.approx(low + 5)


@pytest.mark.parametrize(
    ("metric", "line"),
    [
        ("mine.py:FILE", "no object in mine.py is called"),
        (lambda attribution: 1.0, "a lambda has no name"),
        (lambda *given: "x", "a lambda has no name"),
        (type("Pooled", (RecursiveErasure,), {})(), "has its own summarize"),
        (3, "is not a metric"),
    ],
)
def test_what_is_no_metric_is_one_line(here, metric, line):
    with pytest.raises(TrothError, match=line):
        troth.bench(model(), DATA[:1], ["leave_one_out"], [metric], "run")


def test_a_plan_names_code_only_with_the_flag(here):
    texts = "\n".join(json.dumps({"text": example.text, "label": example.label % 2}) for example in DATA)
    (here / "data.jsonl").write_text(texts)
    (here / "plan.toml").write_text(
        'models = "embedded"\ndata = "data.jsonl"\nexplainers = "gradient"\nmetrics = ["mine.py:longest", "sparsity"]\n'
    )
    call = [sys.executable, "-m", "troth", "sweep", "plan.toml", "--workers", "1"]
    refused = subprocess.run([*call, "--dry-run"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "--allow mine.py:longest" in refused.stderr
    done = subprocess.run([*call, "--allow", "mine.py:longest", "--json"], capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["complete"], done.stderr


def test_a_sweep_in_python_takes_what_is_ones_own(here):
    other = Encoder(fakes.hf_model("roberta"), fakes.tokenizer_for("roberta"), name="other")
    swept = troth.sweep([model(), other], DATA, {"mine": word_lengths, "loo": "leave_one_out"},
                        [longest, LostShare, "sparsity"], "swept")  # fmt: skip
    assert swept.outcome.complete
    assert {board.model for board in swept.leaderboards} == {"tiny", "other"}
    assert all(set(board.explainers) == {"mine", "loo", "random"} for board in swept.leaderboards)
    alone = troth.bench(model(), DATA, ["leave_one_out"], [longest, LostShare], "alone").leaderboard
    (tiny,) = [board for board in swept.leaderboards if board.model == "tiny"]
    for metric in ("longest", "lost_share"):
        assert tiny.summaries["loo", metric].value == alone.summaries["leave_one_out", metric].value
    sheet = swept.sheet()
    assert [column.name for column in sheet.columns] == ["explainer", "tiny", "other", "mean"]
    for row in sheet.rows:
        places = [mean_rank(board, row[0].value) for board in swept.leaderboards]
        assert [cell.value for cell in row[1:]] == pytest.approx([*places, sum(places) / 2])
    assert swept.to_csv().splitlines()[0] == "explainer,model,data,setting,place"
    again = troth.sweep([model(), other], DATA, {"mine": word_lengths, "loo": "leave_one_out"},
                        [longest, LostShare, "sparsity"], "swept")  # fmt: skip
    assert again.outcome.computed == 0


def test_what_is_noted_of_a_metric_is_kept_for_every_data_set(here):
    sets = [Data(name, DATA[:count], ("a", "b", "c"), (), "") for name, count in (("few", 2), ("more", 4))]
    swept = troth.sweep(model(), sets, ["leave_one_out"], [PerText], "swept")
    stored = leaderboards(Store("swept"))
    for boards in (swept.leaderboards, stored):
        found = {board.data: board.values["leave_one_out", board.metrics[0]].tolist() for board in boards}
        assert found == {"few": [0.5] * 2, "more": [0.25] * 4}
    assert {board.metrics[0] for board in stored} == {"per_text(texts=2)", "per_text(texts=4)"}


def word_lengths(text):
    return [float(len(word)) for word in text.split()]


def test_a_run_with_ones_own_metric_is_verified_where_its_code_is_allowed(here):
    named = model()
    troth.bench(named, DATA[:4], ["leave_one_out"], ["mine.py:longest", "mine.py:LostShare"], "run")
    (here / "ran").unlink()
    found = verify_run(Store("run"), named, sample=9)
    assert all(words.startswith("explanation") for words in found.computed)
    assert found.not_allowed == ("mine.py:LostShare", "mine.py:longest")
    assert not (here / "ran").exists()
    with trust.allowing("mine.py:longest"):
        found = verify_run(Store("run"), named, sample=9)
    assert found.holds
    assert sum("longest" in words for words in found.computed) == 2  # of random, too
    assert found.not_allowed == ("mine.py:LostShare",)


@pytest.mark.full
def test_records_of_ones_own_methods_are_verified_where_their_code_is_allowed(here):
    (here / "own.py").write_text("def lengths(text):\n    return [len(word) for word in text.split()]\n")
    call = [sys.executable, "-m", "troth"]
    told = [*call, "explain", "Not a bad film.", "-e", "own.py:lengths", "--record", "kept", "--json"]
    subprocess.run(told, capture_output=True, check=True)
    refused = subprocess.run([*call, "verify", "kept"], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "lengths is not one of troth's own methods; if it is your own code, pass --allow" in refused.stdout
    allowed = [*call, "verify", "kept", "--allow", "own.py:lengths"]
    held = subprocess.run(allowed, capture_output=True, text=True, check=False)
    assert held.returncode == 0, held.stdout
    (here / "own.py").write_text("def lengths(text):\n    return [-len(word) for word in text.split()]\n")
    changed = subprocess.run(allowed, capture_output=True, text=True, check=False)
    assert changed.returncode == 1
    assert "lengths gave 'Not' +3, now -3" in changed.stdout
