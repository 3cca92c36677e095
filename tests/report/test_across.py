"""Tables over several leaderboards: mean ranks and values against the leaderboards, formats, names of columns."""

import csv
import io
import json
import sys

import pytest
from tests.report.boards import board

from troth import cli
from troth.report import export
from troth.report.across import across, tables
from troth.report.board import mean_rank
from troth.report.figures import line_styles
from troth.sweep.bench import bench

HIGHER = {"aopc_comprehensiveness": True, "aopc_sufficiency": False}
FIRST = board({"random": [0.1, 0.5], "lime": [0.4, 0.1], "gradient": [0.2, 0.3]}, HIGHER, model="one", data="sst")
SECOND = board({"random": [0.1, 0.5], "lime": [0.1, 0.6], "gradient": [0.3, 0.2]}, HIGHER, model="two", data="sst")
SMALLER = board({"random": [0.1], "lime": [0.4]}, {"aopc_comprehensiveness": True}, model="one", data="imdb")
BOARDS = (FIRST, SECOND, SMALLER)


def test_mean_ranks_are_those_of_the_leaderboards():
    sheet = across(BOARDS)
    assert [column.name for column in sheet.columns] == ["explainer", "one · sst", "two · sst", "one · imdb", "mean"]
    by_name = {row[0].value: [cell.value for cell in row[1:]] for row in sheet.rows}
    assert by_name["lime"] == pytest.approx([1, 2.75, 1, (1 + 2.75 + 1) / 3])
    assert by_name["gradient"][:2] == [2, 1]
    assert not sheet.rows[[row[0].value for row in sheet.rows].index("gradient")][3].defined
    for name, values in by_name.items():
        assert values[0] == mean_rank(FIRST, name)
    assert [row[0].value for row in sheet.rows][-1] == "random"
    assert [row[0].value for row in sheet.rows if row[-1].best] == ["lime"]  # gradient was not measured on imdb
    assert any("fewer columns" in note for note in sheet.notes)
    assert not any("fewer columns" in note for note in across((FIRST, SECOND)).notes)


def test_the_values_of_each_metric_follow():
    ranks, *values = tables(BOARDS)
    assert ranks.title == "Mean ranks of 3 explainers on 3 pairs of model and data"
    assert [sheet.title for sheet in values] == [
        "aopc_comprehensiveness of 3 explainers on 3 pairs of model and data",
        "aopc_sufficiency of 3 explainers on 2 pairs of model and data",
    ]
    sufficiency = {row[0].value: row[1:] for row in values[1].rows}
    assert [cell.value for cell in sufficiency["gradient"]] == [0.3, 0.2]
    assert [cell.best for cell in sufficiency["gradient"]] == [False, True]
    assert (sufficiency["lime"][0].low, sufficiency["lime"][0].high) == (pytest.approx(0.05), pytest.approx(0.15))
    assert [column.head for column in values[1].columns] == ["explainer", "one ↓", "two ↓"]
    assert tables([FIRST]) == []


def test_runs_of_the_same_model_and_data_are_named_by_their_folders(tmp_path):
    same = [board({"random": [0.1]}, {"aopc_comprehensiveness": True}, folder=tmp_path / name) for name in ("a", "b")]
    assert [column.name for column in across(same).columns] == ["explainer", "a", "b", "mean"]


def test_latex_has_a_label_and_a_caption():
    text = export.text(tables(BOARDS), "latex")
    assert text.count(r"\begin{table}") == text.count(r"\caption{") == text.count(r"\label{tab:") == 3
    labels = [line for line in text.splitlines() if line.startswith(r"\label")]
    assert len(set(labels)) == 3


def test_the_style_of_an_explainer_does_not_depend_on_the_others():
    alone = line_styles(["lime"])["lime"]
    assert line_styles(["gradient", "random", "attention", "lime", "kernel_shap"])["lime"] == alone
    own = line_styles(["lime(samples=9)"])["lime(samples=9)"]
    assert line_styles(["lime(samples=9)", "lime", "gradient", "random"])["lime(samples=9)"] == own
    common = ("leave_one_out", "integrated_gradients", "gradient", "attention", "input_x_gradient", "deep_lift", "lime")
    assert len({style.color for style in line_styles(common).values()}) == 7


def test_report_compares_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["troth", *arguments])
        with pytest.raises(SystemExit) as left:
            cli.main()
        printed = capsys.readouterr()
        return left.value.code or 0, printed.out, printed.err

    benches = [
        bench("embedded", "reviews", ["gradient"], ["aopc_comprehensiveness"], name, limit=limit)
        for name, limit in (("first", 6), ("second", 7))
    ]
    code, out, err = call("report", "first", "second", "--format", "csv")
    assert code == 0, err
    rows = [row for row in csv.DictReader(io.StringIO(out)) if row["metric"]]
    values = [float(row["value"]) for row in rows if row["explainer"] == "gradient"]
    assert values == [each.leaderboard.summaries["gradient", "aopc_comprehensiveness"].value for each in benches]
    code, out, err = call("report", "first", "second")
    assert code == 2
    assert "--out across.html" in err
    assert call("report", "first", "second", "--out", "across.html")[0] == 0
    page = (tmp_path / "across.html").read_text()
    assert "Mean ranks of 2 explainers" in page
    assert "<th>first ↑</th><th>second ↑</th>" in page
    assert "model embedded · data reviews · " in page
    assert "1 is the best rank" in page
    assert json.loads(call("report", "first", "second", "--format", "json")[1])[1]["run"] == "second"
    code, out, err = call("report", "first", "second", "--figures", "shown", "--json")
    assert code == 0, err
    files = json.loads(out)["files"]
    assert "01-mean_ranks_of_2_explainers_on_2_pairs_of_model_and_data.tex" in files
    assert "02-aopc_comprehensiveness_of_2_explainers_on_2_pairs_of_model_and_data.svg" in files
