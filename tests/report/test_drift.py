"""Whose explanation moved, and by how much more than its own noise: from stored scores, worked out by hand."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import troth
from troth.cli import app
from troth.core.errors import TrothError
from troth.report.drift import drift
from troth.store.store import open_run

TEXTS = [f"one two three four five six number{number}" for number in range(12)]


def bench(out, method, texts=TEXTS, seeds=(0,), units="word"):
    troth.bench(
        "embedded", texts, {"mine": method}, ["comprehensiveness"], out, seeds=seeds, units=units, progress=False
    )  # fmt: skip
    return open_run(out)


def rising(model, example):
    return list(range(1, len(example.text.split()) + 1))


def falling(model, example):
    return rising(model, example)[::-1]


def moved_in_one(model, example):
    return falling(model, example) if example.text.endswith("number3") else rising(model, example)


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    return bench(tmp_path_factory.mktemp("before"), rising)


def test_distances_by_hand(before, tmp_path):
    found = drift(before, bench(tmp_path / "same", rising, TEXTS[::-1]))
    assert [one.distance for one in found.texts["mine"]] == pytest.approx([0] * 12)
    reversed_order = drift(before, bench(tmp_path / "reversed", falling))
    assert [one.distance for one in reversed_order.texts["mine"]] == pytest.approx([2] * 12)  # correlations of −1
    one_text = drift(before, bench(tmp_path / "one", moved_in_one))
    first, *others = one_text.texts["mine"]
    assert (first.before.source.text, first.excess) == (TEXTS[3], pytest.approx(2))
    assert max(one.excess for one in others) == pytest.approx(0)
    assert first.moved is None  # one seed each: the noise is not known
    assert np.isnan(first.noise)
    assert "not known: both runs have one seed" in " ".join(one_text.notes())


def test_noise_is_that_of_the_seeds(tmp_path):
    """`random` with the same seeds is the same; with others it has moved by nothing but its noise."""
    first = bench(tmp_path / "first", rising, seeds=(0, 1, 2))
    second = bench(tmp_path / "second", moved_in_one, seeds=(3, 4, 5))
    found = drift(first, second)
    assert found.seeds == (3, 3)
    random = found.texts["random"]
    record = next(record for record in found.sheet().records if record["explainer"] == "random")
    assert abs(record["excess"]) < 0.1  # 0 in expectation
    assert record["noise"] == pytest.approx(1, abs=0.25)  # unrelated rankings
    assert sum(one.moved for one in random) <= 3  # at most 1 of 10 in expectation
    (moved,) = [one for one in found.texts["mine"] if one.moved]
    assert (moved.before.source.text, moved.noise, moved.excess) == (TEXTS[3], pytest.approx(0), pytest.approx(2))
    assert "at most 1 of 10 texts" in " ".join(found.notes())


def test_on_the_command_line_and_as_a_page(before, tmp_path):
    bench(tmp_path / "after", moved_in_one, [*TEXTS, "<b>another</b> text"])
    page = tmp_path / "drift.html"
    runs = [str(before.folder), str(tmp_path / "after")]
    shown = CliRunner().invoke(app, ["diff", *runs, "--texts", "--html", str(page)])
    assert shown.exit_code == 0, shown.output
    assert "+2.00 mine: " in shown.output
    assert page.read_text(encoding="utf-8").count("number3") == 4  # two explainers, before and after
    found = json.loads(CliRunner().invoke(app, ["diff", *runs, "--texts", "--json"]).stdout)
    mine = [one for one in found["texts"] if one["explainer"] == "mine"]
    assert len(mine) == 12  # the thirteenth text is in one run only
    assert (mine[0]["text"], mine[0]["excess"], mine[0]["noise"]) == (TEXTS[3], pytest.approx(2), None)


def test_other_units_are_left_out_and_nothing_shared_is_said(before, tmp_path):
    with pytest.raises(TrothError, match="share no text"):
        drift(before, bench(tmp_path / "other", rising, ["a text that is in one run only"]))


def test_a_diff_is_a_table_and_exits_with_0_whatever_it_finds(before, tmp_path):
    bench(tmp_path / "after", falling)
    shown = CliRunner().invoke(app, ["diff", str(before.folder), str(tmp_path / "after"), "--all"])
    assert shown.exit_code == 0
    assert "{" not in shown.output, shown.output  # no Python dictionaries
    assert "comprehensiveness" in shown.output
