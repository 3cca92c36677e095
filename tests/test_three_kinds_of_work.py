"""The last part of docs/guide/five_minutes.md, worked through: all its commands, from a model to the leaderboard."""

import csv
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import torch

import fakes
from troth import cli
from troth.report.board import leaderboards
from troth.store.store import Store

PAGE = (Path(__file__).parents[1] / "docs" / "guide" / "five_minutes.md").read_text().partition("\n### ")[2]
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
SCRIPT = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
DECIDE = """
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

TEXTS = ["a good film", "a great cast", "a bad ending", "dull and slow", "the good book", "a bad book"]
LABELS = ["positive", "positive", "negative", "negative", "positive", "negative"]
pipeline = make_pipeline(CountVectorizer(), LogisticRegression()).fit(TEXTS, LABELS)
"""
MINE = """
from dataclasses import dataclass
from typing import ClassVar

from troth.core.types import Attribution
from troth.explainers import Explainer


def lengths(text):
    return [len(word) for word in text.split()]


@dataclass(frozen=True)
class Negative(Explainer):
    signed: ClassVar[bool] = False

    weight: float = 1.0

    def ask(self, question):
        yield from ()
        words = {"bad", "dull", "awful", "slow"}
        scores = [self.weight * (unit in words) for unit in question.encoding.unit_texts]
        return Attribution(question, scores, signed=False)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder as a user has it: a model that finds "bad" and "dull", a csv with word labels, two files of code."""
    folder = tmp_path_factory.mktemp("work")
    names = {"id2label": {0: "negative", 1: "positive"}, "label2id": {"negative": 0, "positive": 1}}
    model, tokenizer = fakes.hf_model(classes=2, **names), fakes.wordpiece()
    with torch.no_grad():
        pole = torch.randn(16, generator=torch.Generator().manual_seed(0))
        for word, sign in (("bad", -8), ("dull", -8), ("good", 8), ("great", 8)):
            model.get_input_embeddings().weight[tokenizer.convert_tokens_to_ids(word)] = sign * pole
    model.save_pretrained(folder / "my-model")
    tokenizer.save_pretrained(folder / "my-model")
    with (folder / "reviews.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "label"])
        for number, text in enumerate(fakes.CORPUS):
            rows.writerow([text, ["positive", "negative"][number % 2]])
    (folder / "decide.py").write_text(DECIDE)
    (folder / "mine.py").write_text(MINE)
    return folder


@pytest.fixture
def troth(monkeypatch, capsys, place):
    """Calls a printed command in the user's folder, all work in this process. -> what it prints"""
    monkeypatch.chdir(place)

    def call(command):
        arguments = shlex.split(command)[1:]
        workers = ["--workers", "1"] if arguments[0] == "bench" else []
        monkeypatch.setattr(sys, "argv", ["troth", *arguments, *workers])
        with pytest.raises(SystemExit) as left:
            cli.main()
        told = capsys.readouterr()
        assert not left.value.code, told.err
        return told.out

    return call


def printed(part):
    return next(command for command in COMMANDS if part in command)


def test_every_printed_command_is_run_here():
    assert len(COMMANDS) == 7


def test_explainers_compared_on_a_model_folder(troth, place):
    out = troth(printed("--out runs/paper"))
    assert "my-model on 7 examples of reviews.csv" in out
    (board,) = leaderboards(Store(place / "runs" / "paper"))
    assert set(board.explainers) == {"random", "leave_one_out", "gradient", "integrated_gradients"}
    assert not board.failures
    assert "runs/paper/report.html" in troth(printed("report runs/paper").removesuffix(" --format latex"))
    latex = troth(printed("report runs/paper --format latex"))
    assert r"\toprule" in latex
    assert r"integrated\_gradients" in latex
    assert "integrated_gradients" in (place / "runs" / "paper" / "report.html").read_text()


def test_decisions_of_a_scikit_learn_pipeline(troth, place):
    out = troth(printed("--html decision.html"))
    assert "negative" in out
    assert "leave_one_out" in (place / "decision.html").read_text()
    (explained,) = json.loads(troth(f"{printed('--html decision.html')} --json"))
    scores = dict(zip(explained["units"], explained["scores"], strict=True))
    assert scores["bad"] == max(scores.values()) > scores["film"]
    troth(printed("--out runs/decide"))
    (board,) = leaderboards(Store(place / "runs" / "decide"))
    assert board.model == "decide.py:pipeline"
    assert {"leave_one_out", "lime", "random"} <= set(board.explainers)
    assert not board.failures


def test_a_new_method_against_the_best(troth, place):
    assert "\nnegative " in troth(printed("-m my-model -e mine.py:Negative"))
    out = " ".join(troth(printed("--out runs/mine")).split())
    assert re.search(r" negative − \w+: [+−]\d\.\d{3} \[−?\d\.\d{3}, −?\d\.\d{3}\] in \S+", out)
    assert " lengths − " in out
    (board,) = leaderboards(Store(place / "runs" / "mine"))
    assert {"negative", "lengths", "leave_one_out", "random"} <= set(board.explainers)
    assert not board.failures


def test_captum_in_the_same_table(place, monkeypatch, capsys):
    pytest.importorskip("captum")
    monkeypatch.chdir(place)
    exec(compile(SCRIPT, "docs/guide/five_minutes.md", "exec"), {"__name__": "work"})
    assert "captum_ig − mine: " in capsys.readouterr().out
    (board,) = leaderboards(Store(place / "runs" / "captum"))
    assert set(board.explainers) == {"captum_ig", "mine", "random"}
    assert not board.failures
