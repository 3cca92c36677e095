"""A method of the user's against the best other one, by hand."""

import numpy as np
import pytest

import fakes
import troth
from troth import statistics
from troth.core.numbers import p_value
from troth.core.types import Example
from troth.report.answer import pairs

DATA = [Example(str(number), text, label=0) for number, text in enumerate(fakes.CORPUS)]


def mine(text):
    return [float(len(word)) for word in text.split()]


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    methods = {"mine": mine, "loo": "leave_one_out"}
    out = tmp_path_factory.mktemp("pairs") / "run"
    return troth.bench(
        fakes.encoder("bert"), DATA, methods, ["comprehensiveness(ratio=0.5)", "sparsity"], out
    ).leaderboard


def test_the_pair_is_named_with_its_mean_difference(board):
    (line,) = pairs(board)
    differences = (
        board.values["mine", "comprehensiveness(ratio=0.5)"] - board.values["loo", "comprehensiveness(ratio=0.5)"]
    )
    shown = f"{np.mean(differences):+.3f}".replace("-", "−")
    assert line.startswith(f"mine − loo: {shown} [")
    assert " in comprehensiveness, p " in line
    assert "sparsity" not in line  # it has no direction
    assert line in board.answer()


def test_the_p_value_is_that_behind_the_letters(board):
    (line,) = pairs(board)
    values = {name: board.values[name, "comprehensiveness(ratio=0.5)"] for name in board.explainers}
    raw = [
        statistics.paired_test(values[a], values[b])[1]
        for a, b in (("mine", "loo"), ("mine", "random"), ("loo", "random"))
    ]
    assert line.endswith(f"{p_value(statistics.holm(raw)[0])}.")


def test_no_method_of_the_users_no_line(tmp_path):
    result = troth.bench(fakes.encoder("bert"), DATA, ["leave_one_out"], ["comprehensiveness"], tmp_path / "run")
    assert pairs(result.leaderboard) == []
