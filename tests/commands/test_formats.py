"""From a bench on the command line to the table of a paper."""

import csv
import io
import json
import re

import pytest
from tests.report.test_export import called

from troth.commands._sweeping import print_table
from troth.commands.bench import bench
from troth.commands.query import query
from troth.core.errors import TrothError
from troth.core.terminal import Console


@pytest.fixture(scope="module")
def formats(tmp_path_factory):
    """The same bench in every format; only the first computes anything."""
    folder = tmp_path_factory.mktemp("formats") / "run"
    arguments = ("--limit", 4, "-e", "gradient", "--metrics", "comprehensiveness", "--workers", 1, "--out", folder)
    printed = {form: called(bench, *arguments, "--format", form) for form in ("csv", "latex", "markdown", "json")}
    return folder, printed | {"terminal": called(bench, *arguments)}


def test_bench_prints_one_format_and_nothing_else(formats):
    folder, printed = formats
    rows = list(csv.DictReader(io.StringIO(printed["csv"])))
    assert {row["explainer"] for row in rows} == {"gradient", "random"}
    board = {row["explainer"]: row["comprehensiveness"] for row in json.loads(printed["json"])["rows"]}
    sql = called(query, folder, "select * from leaderboard", "--csv")
    stored = {row["explainer"]: row for row in csv.DictReader(io.StringIO(sql))}
    for row in rows:
        name = row["explainer"]
        assert float(row["value"]) == board[name]["value"] == float(stored[name]["value"])
        number = f"{float(row['value']):z.3f}"
        latex = re.search(rf"^{name} & (.*?) &", printed["latex"], re.MULTILINE)[1]
        assert re.sub(r"\\textsuperscript\{\w+\}|\\textbf|[{}$]", "", latex) == number
        assert re.search(rf"^\| {name} \| \**{re.escape(number)}\** \[", printed["markdown"], re.MULTILINE)
        assert re.search(rf"^{name} +{re.escape(number)}[*~ ]+\[", printed["terminal"], re.MULTILINE)
    assert printed["latex"].startswith("% needs \\usepackage{booktabs} and \\usepackage{graphicx}\n\\begin{table}")
    assert printed["latex"].endswith("\\end{table}\n")
    assert printed["markdown"].startswith("**embedded on 4 examples of reviews**\n")


def test_piped_output_has_marks_for_bold_and_dim(formats):
    _, printed = formats
    assert "*: best of its column" in printed["terminal"]
    assert "\x1b" not in printed["terminal"]


def test_another_format_is_refused_before_any_work(tmp_path):
    with pytest.raises(TrothError, match="--format must be latex or markdown or csv or json, not 'html'"):
        called(bench, "--format", "html", "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_table_that_is_wider_than_the_screen_goes_on_below(capsys):
    columns = ["data", "method", "NS", "published", "NC", "published"]
    rows = [["sst", name, "0.581 [0.563, 0.599]", 0.4, "0.641 [0.623, 0.659]", 0.3] for name in ("one", "two")]
    print_table(Console(width=50), "A table", columns, rows)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 50
    assert [line.split() for line in lines] == [
        ["A", "table"],
        ["data", "method", "NS", "published"],
        ["sst", "one", "0.581", "[0.563,", "0.599]", "0.400"],
        ["sst", "two", "0.581", "[0.563,", "0.599]", "0.400"],
        ["data", "method", "NC", "published"],
        ["sst", "one", "0.641", "[0.623,", "0.659]", "0.300"],
        ["sst", "two", "0.641", "[0.623,", "0.659]", "0.300"],
    ]
