"""A leaderboard fits its terminal: names as headings, letters, signs with a legend, and nothing cut off."""

import io
import re

import pytest
from rich.cells import cell_len
from tests.report.boards import board, many

from troth.core.terminal import Console
from troth.report.screen import in_full, table
from troth.report.wording import folded
from troth.validity.stamp import Stamp


def shown(one, width, marks=False, **options):
    console = Console(width=width, file=io.StringIO(), **options)
    console.print(table(one, width=width, marks=marks))
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
@pytest.mark.parametrize("marks", [True, False])
def test_everything_is_there_and_fits(width, marks):
    one = many()
    text = shown(one, width, marks)
    lines = text.splitlines()
    assert max(map(cell_len, lines)) <= width
    beside = [line for line in lines if line.startswith("explainer ")]
    if width != 80:  # where it depends on the signs
        assert bool(beside) is (width > 80)  # a row per explainer where two metrics fit side by side
    for place, metric in enumerate(one.metrics):
        number = f"{place} {'↓' if place % 2 else '↑'}"
        assert len([line for line in lines if re.search(rf"(comprehensiveness_|^ *| ){number}", line)]) == 1
        for explainer in one.explainers:
            summary = one.summaries[explainer, metric]
            found = f"{summary.value:.3f}" + r"[*~]{0,2} +\[\S+, \S+\] " + one.groups[metric][explainer]
            assert [line for line in lines if line.strip().startswith(explainer) and re.search(found, line)]
        assert metric in re.sub(r"\s+", "", text)  # its options
    assert "…" not in text


def test_names_keep_the_options_that_tell_them_apart():
    metrics = ("sufficiency(ratio=0.1)", "sufficiency(ratio=0.5)", "log_odds(ratio=0.5)")
    explainers = ("random", "lime", "lime(samples=9)")
    one = board({name: [0.1, 0.2, 0.3] for name in explainers}, dict.fromkeys(metrics, False))
    for width in (80, 140):
        text = shown(one, width)
        assert text.count("sufficiency(ratio=0.1) ↓") == text.count("sufficiency(ratio=0.5) ↓") == 1
        assert "log_odds ↓" in text
        assert "Options: log_odds(ratio=0.5)." in text


def test_the_legend_explains_the_signs_that_are_there():
    one = many()
    assert "bold: best of its column; dim: not shown to beat random; [low, high]: 95 % interval; a" in (
        styled := " ".join(shown(one, 200).split())
    )
    assert "a shared letter: no significant difference; ↑ ↓: the better side" in styled
    plain = shown(one, 200, marks=True)
    assert "*: best of its column; ~: not shown to beat random" in plain
    assert len(re.findall(r"0\.\d{3}~? ?\*|0\.\d{3}\*", plain)) == 6  # one per metric
    few = board({"a": [0.5]}, {"x": None})
    assert [line for line in shown(few, 80).splitlines() if "interval" in line] == [
        "[low, high]: 95 % interval; ms, passes: time and passes of the model per example"
    ]


def test_bold_and_dim_are_styles_of_a_terminal():
    one = board({"a": [0.5], "b": [0.2]}, {"x": True}, beats={("a", "x"): True, ("b", "x"): False})
    text = shown(one, 80, force_terminal=True, color_system="standard")
    assert "\x1b[1m0.500" in text
    assert "\x1b[2m0.200" in text


def test_notes_with_one_reason_are_one_line():
    assert folded({"a": "slow", "b": "odd", "c": "slow"}) == ["a, c: slow", "b: odd"]
    said = " ".join(line.plain for line in in_full(many(), 200))
    assert said.count("this run checked inputs erased by mask_token only") == 1


def test_where_nothing_was_tested_the_legend_says_why():
    why = "MaSF says nothing of inputs erased by delete"
    stamps = {"aopc_comprehensiveness": Stamp(why=why), "sufficiency": Stamp(why=why)}
    values = {"lime": [0.5, 0.2], "random": [0.2, 0.2]}
    text = shown(board(values, dict.fromkeys(stamps, True), stamps=stamps), 100)
    assert " ".join(text.split()).count(f"validity: are erased inputs in distribution? Not tested: {why}") == 1
    stamps["sufficiency"] = Stamp(0.5)
    text = shown(board(values, dict.fromkeys(stamps, True), stamps=stamps), 100)
    assert "MaSF's p-value" in text
    assert why not in text


def test_a_name_wider_than_the_terminal_is_folded():
    name = "an_explainer_of_my_own_" * 5
    text = shown(board({name: [0.5], "b": [0.2]}, {"x": True}), 100)
    assert max(map(cell_len, text.splitlines())) <= 100
    assert "0.500" in text
    assert name in "".join(line.split("  ")[0].strip() for line in text.splitlines())
