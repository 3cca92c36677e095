"""What `troth query` prints: all columns with all their values, and the leaderboard's own numbers."""

import io
import json

import numpy as np
import pytest
import typer
from rich.console import Console
from tests.test_seeds import board_of, curve_score, run, store_scores
from typer.testing import CliRunner

from troth.commands._options import described
from troth.commands.query import query, show


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Two explainers, a metric that is a mean and one that is not, two seeds of one of them, an undefined score."""
    store = run(tmp_path_factory.mktemp("query") / "run")
    generator = np.random.default_rng(0)
    for explainer, seeds in {"random": (0, 1), "lime": (0,)}.items():
        for seed in seeds:
            store_scores(store, explainer, [*generator.normal(size=9), float("nan")], seed)
            store_scores(store, explainer, [curve_score(generator) for _ in range(10)], seed, "recursive_erasure")
    return store


@pytest.fixture
def ask(store):
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(described(query))

    def call(sql, *arguments):
        result = CliRunner().invoke(app, [str(store.folder), sql, *arguments])
        assert result.exit_code == 0, (result.output, result.exception)
        return result.stdout, result.stderr

    return call


def test_the_leaderboard_view_has_the_numbers_that_are_printed(store, ask):
    board = board_of(store)
    out, err = ask("select * from leaderboard", "--json")
    assert err == ""
    found = {(row["explainer"], row["metric"]): row for row in json.loads(out)}
    assert found.keys() == board.summaries.keys()
    for key, summary in board.summaries.items():
        row = found[key]
        assert (row["value"], row["low"], row["high"]) == (summary.value, summary.low, summary.high)
        assert (row["examples"], row["seeds"], row["undefined"]) == (
            summary.count, summary.seeds, sum(summary.undefined.values())
        )  # fmt: skip
        assert row["letters"] == board.groups[key[1]][key[0]]
    assert found["random", "sufficiency"]["seeds"] == 2
    out, _ = ask("select value from leaderboard where explainer = 'lime' and metric = 'sufficiency'")
    assert f"{board.summaries['lime', 'sufficiency'].value:.6g}" in out


def test_an_average_over_scores_says_why_it_is_not_the_leaderboards(store, ask):
    out, err = ask("select explainer, metric, avg(value) v from scores group by all", "--json")
    averages = {(row["explainer"], row["metric"]): row["v"] for row in json.loads(out)}
    summaries = board_of(store).summaries
    for explainer in ("lime", "random"):
        assert averages[explainer, "sufficiency"] == pytest.approx(summaries[explainer, "sufficiency"].value)
        assert averages[explainer, "recursive_erasure"] != pytest.approx(
            summaries[explainer, "recursive_erasure"].value
        )
    assert "the view leaderboard has the numbers" in err
    assert "recursive_erasure there is computed from all examples together" in err
    assert "a row per example and seed" in err
    assert ask("select value from scores")[1] == ""


def shown(names, rows, width):
    console = Console(width=width, file=io.StringIO(), highlight=False)
    show(console, names, rows)
    return console.file.getvalue()


def test_all_columns_of_scores_are_printed(store, ask):
    sql = "select * from scores where metric = 'recursive_erasure' order by cell, example_id"
    out, _ = ask(sql, "--limit", "2")
    columns = [row["column_name"] for row in json.loads(ask("describe scores", "--json")[0])]
    assert len(columns) > 12
    lines = [line.split() for line in out.splitlines()]
    for column in columns:
        assert sum(line[:1] == [column] for line in lines) == 2, column
    first = json.loads(ask(sql, "--json")[0])[0]
    assert first["record"] in out  # whole, though it is longer than a line


def test_a_table_where_it_fits_and_lists_where_not():
    names, rows = ["name", "a", "a"], [["x" * 30, 1, 2.5], [None, 3, float("nan")]]
    wide = shown(names, rows, 80).splitlines()
    assert wide[0].split() == names
    assert wide[1].split() == ["x" * 30, "1", "2.5"]
    assert wide[2].split() == ["–", "3", "nan"]
    narrow = [line.split() for line in shown(names, rows, 24).splitlines()]
    assert narrow[:4] == [["row", "1"], ["name", "x" * 30], ["a", "1"], ["a", "2.5"]]
    assert narrow[4:] == [["row", "2"], ["name", "–"], ["a", "3"], ["a", "nan"]]
    assert shown(["a" * 20, "b" * 20], [], 30) == f"no rows; columns: {'a' * 20}, {'b' * 20}\n"


def test_long_cells_are_wrapped_not_cut():
    text = "a text that is far longer than the terminal is wide, and yet it is all there [bold]to read[/bold]"
    out = shown(["id", "text"], [["1", text]], 60)
    assert " ".join(word for word in out.split() if word not in ("id", "text", "1")) == " ".join(
        word for word in text.split() if word != "text"
    )


def test_markup_in_names_and_cells_is_text():
    assert "[red]name[/red]" in shown(["[red]name[/red]"], [["[b]x[/b]"]], 80)


def test_infinite_dates_and_twice_the_same_name_are_printed(ask):
    sql = "select 'infinity'::date d, 1 v, 2 v"
    assert json.loads(ask(sql, "--json")[0]) == [{"d": "infinity", "v": 1, "v_2": 2}]
    out, _ = ask(sql)
    assert out.splitlines()[1].split() == ["infinity", "1", "2"]
