"""Every table and figure of a run as files: the same numbers in all of them, and what is drawn is what is written."""

import base64
import csv
import io
import json
import re

import numpy as np
import pytest
from matplotlib.figure import Figure
from tests.report import page_runs
from tests.report.boards import SUFFICIENCIES, many, stored
from tests.report.test_export import called
from tests.test_seeds import board_of, run, store_scores

from troth import studies
from troth.commands import report
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.report import figures
from troth.report.exhibits import board_exhibits, example_exhibits, write
from troth.report.figures import line_styles
from troth.report.run_page import page_data
from troth.studies import Section, Setting
from troth.studies.roar import Roar

ENDINGS = {".csv", ".tex", ".md", ".svg", ".pdf", ".png"}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("gallery") / "run")


@pytest.fixture(scope="module")
def board(store):
    return board_of(store)


@pytest.fixture(scope="module")
def folder(store, tmp_path_factory):
    place = tmp_path_factory.mktemp("gallery") / "a" / "b"
    assert re.fullmatch(rf"\d+ files written to {place}\n", called(report.report, store.folder, "--figures", place))
    return place


def rows(folder, name):
    (path,) = folder.glob(f"{name}*.csv")
    return list(csv.DictReader(io.StringIO(path.read_text())))


def drawn(board, name):
    (sheet,) = (exhibit.sheet for exhibit in board_exhibits(board) if exhibit.name == name)
    return [axes for axes in figures.plot([sheet]).axes if axes.get_visible()]


def test_every_exhibit_in_every_format(folder):
    files = {}
    for path in folder.iterdir():
        files.setdefault(path.stem, set()).add(path.suffix)
        start = {".svg": b"<?xml", ".pdf": b"%PDF", ".png": b"\x89PNG"}.get(path.suffix, b"")
        assert path.read_bytes().startswith(start)
        assert path.suffix != ".svg" or "mathdefault" not in path.read_text()  # a power of ten as TeX
    assert files.pop("07-validity_m_d") == {".csv", ".tex", ".md"}  # nothing to draw
    assert set(files) == {
        "01-leaderboard_m_d", "02-curves_m_d", "03-racu_m_d", "04-diagnosticity_m_d", "05-agreement_m_d", "06-cost_m_d",
    }  # fmt: skip
    assert set(map(frozenset, files.values())) == {frozenset(ENDINGS)}


def test_the_same_run_gives_the_same_bytes(board, folder, tmp_path):
    paths = write(tmp_path, [exhibit for exhibit in board_exhibits(board) if exhibit.name == "curves"])
    assert {path.suffix for path in paths} == ENDINGS
    for path in paths:
        assert path.read_bytes() == (folder / f"02-curves_m_d{path.suffix}").read_bytes(), path.name


def test_curves_are_those_of_the_metric(board, folder):
    found = {}
    for row in rows(folder, "02-curves"):
        found.setdefault(row["explainer"], []).append((float(row["erased"]), float(row["explained"])))
    assert set(found) == set(board.explainers)
    (axes,) = drawn(board, "curves")
    lines = {line.get_label(): line.get_xydata() for line in axes.lines}
    for explainer, points in found.items():
        extra = board.summaries[explainer, "recursive_erasure"].extra
        assert points == list(zip(extra["ratios"], extra["explained"], strict=True))
        np.testing.assert_array_equal(lines[explainer], points)


def test_areas_have_the_intervals_of_the_leaderboard(board, folder):
    for row in rows(folder, "03-racu"):
        summary = board.summaries[row["explainer"], "recursive_erasure"]
        numbers = (
            (summary.value, summary.low, summary.high)
            if row["area"] == "RACU"
            else (summary.extra["acu"], *summary.extra["acu_interval"])
        )
        assert tuple(float(row[name]) for name in ("value", "low", "high")) == pytest.approx(numbers, nan_ok=True)
    assert [axes.get_title() for axes in drawn(board, "racu")] == [
        "RACU (recursive_erasure)", "ACU (recursive_erasure)",
    ]  # fmt: skip


def test_diagnosticity_and_agreement_are_those_of_the_meta_report(board, folder):
    by_metric = {one.metric: one for one in board.meta.diagnosticities}
    found = rows(folder, "04-diagnosticity")
    assert [row["metric"] for row in found] == list(by_metric)
    for row in found:
        assert float(row["diagnosticity"]) == by_metric[row["metric"]].value
    (axes,) = drawn(board, "diagnosticity")
    dots = [float(line.get_xdata()[0]) for line in axes.lines if line.get_marker() == "o"]
    assert dots == [one.value for one in board.meta.diagnosticities]
    pairs = {(row["metric"], row["other"]): float(row["kendall_tau"]) for row in rows(folder, "05-agreement")}
    assert pairs == pytest.approx(dict(board.meta.agreement))
    (axes,) = drawn(board, "agreement")
    squares = axes.images[0].get_array()
    assert np.array_equal(squares, squares.T, equal_nan=True)
    assert np.diag(squares).tolist() == [1.0] * len(by_metric)
    first, second = list(by_metric)[:2]
    assert squares[0, 1] == pairs.get((first, second), pairs.get((second, first)))


def test_cost_against_each_metric_that_decides(board, folder):
    found = rows(folder, "06-cost")
    assert len(found) == len(board.explainers) * len(board.deciding)
    values = {(row["explainer"], row["metric"]): float(row["value"]) for row in found}
    assert values["lime", SUFFICIENCIES[0]] == board.summaries["lime", SUFFICIENCIES[0]].value
    assert len(drawn(board, "cost")) == len(board.deciding)


def test_seeds_are_shown_where_there_are_several(tmp_path):
    store = run(tmp_path)
    for seed, scores in enumerate(([0.1, 0.2], [0.3, 0.6])):
        store_scores(store, "random", scores, seed)
    shown = {exhibit.name: exhibit.sheet for exhibit in board_exhibits(board_of(store))}
    assert "Scores are averaged over up to 2 seeds per example." in shown["leaderboard"].notes
    (row,) = shown["seeds"].records
    assert (row["seeds"], row["standard_deviation"]) == (2, pytest.approx(np.std([0.15, 0.45], ddof=1)))


def test_a_board_without_curves_or_random_has_fewer(tmp_path):
    assert [exhibit.name for exhibit in board_exhibits(many())] == ["leaderboard", "cost", "validity"]


def test_no_two_names_look_alike():
    names = ["random", *(f"m{number}" for number in range(56))]
    assert len(set(line_styles(names).values())) == 57
    assert line_styles(names)["random"].line == ":"


def test_bad_places_and_options_are_one_line(store, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(TrothError, match=r"cannot write .*file: File exists; choose another place"):
        called(report.report, store.folder, "--figures", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
    with pytest.raises(TrothError, match="--figures writes its own files; leave --out and --format out"):
        called(report.report, store.folder, "--figures", tmp_path / "x", "--format", "latex")
    run(tmp_path / "empty")
    with pytest.raises(TrothError, match="contains no scores yet; run the same command again to resume it"):
        called(report.report, tmp_path / "empty", "--figures", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_study_keeps_its_figures_for_the_paper(tmp_path, monkeypatch):
    def sections(self, part, setting):
        yield Section(part, "Curves & <b>", ["x"], [[0.5]], draw=lambda figure: figure.subplots().plot([0, 1]))
        yield Section(part, "Table", ["x", "y"], [["a_b", None]])

    monkeypatch.setattr(Roar, "sections", sections)
    run(tmp_path / "run")
    list(studies.carry_out(Roar(), Setting(tmp_path / "run", ("sst",)), ["synthetic"]))
    files = json.loads(called(report.report, tmp_path / "run", "--figures", tmp_path / "out", "--json"))["files"]
    assert set(files) == {path.name for path in (tmp_path / "out").iterdir()}
    assert {name for name in files if name.startswith("01")} == {f"01-synthetic{ending}" for ending in ENDINGS}
    assert {name for name in files if name.startswith("02")} == {
        "02-synthetic.csv", "02-synthetic.tex", "02-synthetic.md",
    }  # fmt: skip
    for ending in (".svg", ".pdf", ".png"):
        stored = (tmp_path / "run" / f"01-synthetic{ending}").read_bytes()
        assert (tmp_path / "out" / f"01-synthetic{ending}").read_bytes() == stored
    assert (tmp_path / "out" / "02-synthetic.csv").read_text() == "x,y\na_b,\n"
    # Its page has them, too.
    called(report.report, tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    shown = json.loads(re.search(r'id="report-data">(.*?)</script>', page)[1])["tables"]
    assert [table["title"] for table in shown] == ["Curves & <b>", "Table"]
    figure = base64.b64decode(shown[0]["figure"].partition(",")[2])
    assert figure in [(tmp_path / "run" / f"01-synthetic{ending}").read_bytes() for ending in (".svg", ".png")]
    assert shown[1]["figure"] is None


def test_what_rests_on_single_examples_is_drawn_too(tmp_path):
    store = page_runs.three(tmp_path / "run")
    called(report.report, store.folder, "--figures", tmp_path / "figures")
    for name in ("mean_curves", "explainer_agreement", "calibration"):
        assert {path.suffix for path in (tmp_path / "figures").glob(f"*-{name}_*")} == ENDINGS, name
    curves = rows(tmp_path / "figures", "*-mean_curves_")
    last = [row for row in curves if row["explainer"] == "gradient"][-1]
    assert (last["share"], last["mean"], last["examples"]) == ("0.5", "0.2", "3")
    pairs = {(row["explainer"], row["other"]): float(row["spearman"])
             for row in rows(tmp_path / "figures", "*-explainer_agreement_")}  # fmt: skip
    assert pairs["gradient", "lime"] == page_data(store).report["boards"][0]["agreement"]["explainers"]["values"][0][1]
    # One of three is wrong, all are 80 % sure.
    (bin_,) = rows(tmp_path / "figures", "*-calibration_")
    assert (bin_["sure"], float(bin_["right"]), bin_["examples"]) == ("0.8", pytest.approx(2 / 3, abs=1e-4), "3")


def test_the_most_important_words_are_drawn_longest_first(tmp_path):
    examples = [Example("a", "great film", label=1), Example("b", "great old film", label=1)]
    scores = ([1, 2], [4, 0, 1])
    shown = {"gradient": list(map(page_runs.explanation, examples, scores))}
    facts = page_data(page_runs.stored(tmp_path / "run", examples, shown)).report["boards"][0]
    (sheet,) = (each.sheet for each in example_exhibits(facts) if each.name == "words")
    # great: (0.5 + 1) / 3; film: (1 + 0.25) / 3; old is in one text only.
    assert [[cell.value for cell in row] for row in sheet.rows] == [
        ["gradient", "good", "great", 0.5, 2], ["gradient", "good", "film", 0.4167, 2],
    ]  # fmt: skip
    (axes,) = figures.plot([sheet]).axes
    assert [bar.get_width() for bar in axes.patches] == [0.5, 0.4167]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["great", "film"]


def test_ticks_of_costs_do_not_overlap_over_several_decades():
    several = {"a": 0.03, "b": 13.48}
    for seconds, expected in (({"a": 0.02, "b": 0.4}, {20, 50, 100, 200}), (several, {100, 1000, 10000})):
        figure = Figure()
        figures.draw_costs(figure, seconds, {"m": {"a": 0.1, "b": 0.2}})
        low, high = figure.axes[0].get_xlim()
        assert {round(tick) for tick in figure.axes[0].get_xticks() if low <= tick <= high} == expected
