"""The same numbers on every way out: printed, SQL, csv, data frame, Markdown, LaTeX and figures."""

import csv
import io
import re
import sys

import numpy as np
import pytest
import typer
from rich.console import Console
from tests.report.boards import SUFFICIENCIES, board, stored
from tests.test_seeds import board_of
from typer.testing import CliRunner

import fakes
import troth
from troth.commands import query, report
from troth.commands._options import described
from troth.core.errors import TrothError
from troth.core.results import Attributions, Scores
from troth.core.types import Score
from troth.report import figures
from troth.report.board import leaderboards
from troth.report.board_sheet import as_table
from troth.report.export import csv_text, latex_escaped
from troth.report.screen import table
from troth.studies import Section
from troth.sweep.bench import Bench

NASTY = r"a_b & 5 % of #{c} $x$ ~^ \d | <e> *"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("export") / "run")


def called(command, *arguments):
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(described(command))
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, TrothError):
        raise result.exception
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def records(text):
    return {(row["explainer"], row["metric"]): row for row in csv.DictReader(io.StringIO(text))}


def shown(text, width):
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(text)
    return console.file.getvalue()


# --- one arithmetic


def test_csv_data_frame_and_sql_have_the_numbers_of_the_leaderboard(store):
    one = board_of(store)
    sql = records(called(query.query, store.folder, "select * from leaderboard", "--csv"))
    frame = {(row["explainer"], row["metric"]): row for _, row in one.to_pandas().iterrows()}
    for found in (records(one.to_csv()), sql, frame, records(called(report.report, store.folder, "--format", "csv"))):
        assert found.keys() == one.summaries.keys()
        for key, summary in one.summaries.items():
            numbers = tuple(float(found[key][name]) for name in ("value", "low", "high"))
            assert numbers == (summary.value, summary.low, summary.high)  # to the last bit
            assert found[key]["letters"] == one.groups[key[1]][key[0]]
            assert int(found[key]["undefined"]) == sum(summary.undefined.values())


def test_what_people_read_is_what_programs_read_rounded(store):
    one = board_of(store)
    markdown = [line.strip("| ").split(" | ") for line in one.to_markdown().splitlines() if line.startswith("|")]
    values, intervals = {}, {}
    body = one.to_latex().split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    for above, below in zip(body[::2], body[1::2], strict=True):
        name, *cells = above.removesuffix(r" \\").split(" & ")
        values[name.replace(r"\_", "_")] = cells
        intervals[name.replace(r"\_", "_")] = below.removesuffix(r" \\").split(" & ")[1:]
    wide, narrow = shown(table(one, width=160), 160), shown(table(one, width=80), 80)
    assert [row[0] for row in markdown[2:]] == list(values) == list(one.explainers)
    for row in markdown[2:]:
        for place, metric in enumerate(one.metrics):
            summary = one.summaries[row[0], metric]
            letters = one.groups[metric][row[0]]
            number = f"{summary.value:.3f}"
            interval = f"[{summary.low:.3f}, {summary.high:.3f}]"
            assert row[1 + place].replace("**", "") == f"{number} {interval} {letters}"
            plain = re.sub(r"\\textbf\{(.*?)\}", r"\1", values[row[0]][place]).replace("$-$", "-")
            assert plain == rf"{number}\textsuperscript{{{letters}}}"
            assert intervals[row[0]][place].replace("$-$", "-") == rf"{{\scriptsize {interval}}}"
            for screen in (wide, narrow):
                assert re.search(rf"{re.escape(number)} +{re.escape(interval)} {letters}\b", screen), (row[0], metric)


def test_the_sql_view_equals_the_records(store):
    one = board_of(store)
    assert as_table([one]).to_pylist() == one.sheet().records


def test_a_bench_is_exported_as_its_leaderboard(store, tmp_path):
    one = board_of(store)
    bench = Bench(store.folder, None, one)
    assert (bench.to_csv(), bench.to_latex(), bench.to_markdown()) == (
        one.to_csv(), one.to_latex(), one.to_markdown(tmp_path / "table.md")
    )  # fmt: skip
    assert (tmp_path / "table.md").read_text() == one.to_markdown()
    assert bench.to_pandas().equals(one.to_pandas())
    with pytest.raises(TrothError, match=r"cannot write .*: Is a directory; choose another place"):
        one.to_csv(tmp_path)


# --- bold, letters, escapes


def test_the_best_are_bold_on_the_better_side():
    one = board({"x": [0.9, 0.2, 1.0], "y": [0.5, 0.1, 2.0], "z": [0.90001, -0.3, 3.0]},
                {"up": True, "down": False, "none": None}, {"up": {"x": "a", "z": "a", "y": "b"}})  # fmt: skip
    assert re.findall(r"\\textbf\{(.*?)\}", one.to_latex()) == ["0.900", "0.900", "$-$0.300"]
    assert re.findall(r"\*\*(\S*?)\*\*", one.to_markdown().partition("\n")[2]) == ["0.900", "0.900", "-0.300"]
    assert r"\textbf{0.900}\textsuperscript{a}" in one.to_latex()
    assert "scriptsize" not in one.to_latex(intervals=False)


def test_latex_is_balanced_and_escaped():
    one = board({NASTY: [0.5], "b": [0.25]}, {"me_tric(x={1})": True},
                model=NASTY, data="50%_&")  # fmt: skip
    text = one.to_latex()
    kept = "\n".join(line for line in text.splitlines() if not line.startswith(("%", r"\ifdim")))  # our own
    bare = re.sub(r"\\[\\{}$&%#_]", "", kept)  # escapes and line ends
    depth = 0
    for letter in bare:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        assert depth >= 0
    assert depth == 0
    assert not re.search(r"[%#_~^|<>]", re.sub(r"\\(begin|end|caption|text\w+|scriptsize)", "", bare))
    assert bare.count("$") % 2 == 0
    for name in re.findall(r"\\begin\{(\w+)\}", kept):
        assert kept.count(rf"\begin{{{name}}}") == kept.count(rf"\end{{{name}}}") == 1
    rows = [line for line in kept.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {3}  # 4 columns
    assert kept.index(r"\toprule") < kept.index(r"\midrule") < kept.index(r"\bottomrule")
    assert latex_escaped(NASTY) in kept


def test_markdown_keeps_its_columns():
    one = board({NASTY: [0.5], "b": [0.25]}, {"metric": True})
    rows = [line for line in one.to_markdown().splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
    assert "&lt;e>" in rows[2]


# --- figures


def test_a_figure_of_a_leaderboard_by_the_ending_of_its_name(store, tmp_path):
    one = board_of(store)
    for ending, start in {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}.items():
        one.plot(tmp_path / f"figure{ending}")
        first = (tmp_path / f"figure{ending}").read_bytes()
        assert first.startswith(start)
        one.plot(tmp_path / f"figure{ending}")
        assert (tmp_path / f"figure{ending}").read_bytes() == first
    drawn = (tmp_path / "figure.svg").read_text()
    for name in (*one.explainers, *SUFFICIENCIES, "recursive_erasure"):
        assert name in drawn
    panels = [axes for axes in one.plot().axes if axes.get_visible()]
    for axes, metric in zip(panels, one.metrics, strict=True):
        dots = {float(line.get_xdata()[0]) for line in axes.lines if line.get_marker() in "oD"}
        assert dots == {one.summaries[name, metric].value for name in one.explainers}
    with pytest.raises(TrothError, match=r"cannot draw 'figure.gif'; the name must end with .png, .pdf or .svg"):
        one.plot(tmp_path / "figure.gif")


def test_several_leaderboards_are_one_figure(store):
    one = board_of(store)
    twice = figures.plot([one.sheet(), one.sheet()])
    assert len(twice.axes) == 2 * len(one.plot().axes)
    assert twice.get_size_inches()[1] == pytest.approx(2 * one.plot().get_size_inches()[1])


# --- attributions and scores


@pytest.fixture(scope="module")
def explained():
    return troth.explain(fakes.planted(), ['an awful "odd" film', "good film"], "leave_one_out")


def test_attributions_are_a_list_and_a_table(explained, tmp_path):
    assert isinstance(explained, list)
    assert isinstance(explained[:1], Attributions)
    rows = list(csv.DictReader(io.StringIO(explained.to_csv())))
    assert [row["unit"] for row in rows] == [unit for each in explained for unit in each.units]
    assert [np.float32(row["score"]) for row in rows] == [score for each in explained for score in each.scores]
    first = explained[0]
    assert first.scores[1] != 0
    assert [first.example.text[int(row["start"]) : int(row["end"])] for row in rows[: len(first.units)]] == list(
        first.units
    )
    frame = explained.to_pandas()
    assert frame["score"].tolist() == [float(row["score"]) for row in rows]
    assert set(frame["explainer"]) == {first.explainer}
    assert explained.to_latex().count(r" \\") == 1 + len(rows)
    assert (
        f"| 0 | leave_one_out | {first.label(first.target)} | awful | {float(first.scores[1]):.3f} |"
        in explained.to_markdown()
    )
    bars = [bar.get_width() for bar in explained[:1].plot(tmp_path / "bars.pdf").axes[0].patches]
    np.testing.assert_allclose(bars, first.scores, rtol=1e-6)
    with pytest.raises(TrothError, match=r"a figure shows 1 to 8 attributions, not 18; .*attributions\[:8\]"):
        Attributions([*explained] * 9).plot()


def test_scores_know_their_examples_and_metric(explained):
    scores = troth.measure(fakes.planted(), explained, "comprehensiveness(ratio=0.5)")
    rows = list(csv.DictReader(io.StringIO(scores.to_csv())))
    assert [float(row["value"]) for row in rows] == [score.value for score in scores]
    assert [row["example"] for row in rows] == [each.example.id for each in explained]
    assert {row["metric"] for row in rows} == {"comprehensiveness(ratio=0.5)"}
    assert scores[1:].to_pandas()["example"].tolist() == [explained[1].example.id]
    undefined = Scores([Score(float("nan"), {}, "too short")])
    assert undefined.to_csv().splitlines()[1] == ",,,too short"
    assert "too short" in undefined.to_markdown()
    assert undefined.plot().axes[0].get_xlabel() == "score (1 undefined left out)"


def test_without_pandas_one_line_says_so(explained, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(TrothError, match="to_pandas needs pandas; install it with: pip install pandas"):
        explained.to_pandas()


def test_a_section_of_a_study_is_exported():
    section = Section("p", "Table 1", ["data", "ours", "paper"], [["sst_2", 0.5, None]], "Notes.")
    assert "| sst_2 | 0.500 | – |" in section.to_markdown()
    assert r"sst\_2 & 0.500 & -- \\" in section.to_latex()
    assert section.to_csv() == "data,ours,paper\nsst_2,0.5,\n"
    with pytest.raises(TrothError, match="'Table 1' has no figure; use to_latex, to_markdown or to_csv"):
        section.plot()


# --- commands


def test_report_prints_or_writes_by_the_ending(store, tmp_path):
    (one,) = leaderboards(store)
    assert called(report.report, store.folder, "--format", "latex") == one.to_latex()
    assert called(report.report, store.folder, "--format", "markdown") == one.to_markdown()
    for name, expected in {"t.tex": one.to_latex(), "t.md": one.to_markdown(), "t.csv": one.to_csv()}.items():
        assert called(report.report, store.folder, "--out", tmp_path / name) == f"written to {tmp_path / name}\n"
        assert (tmp_path / name).read_text() == expected
    called(report.report, store.folder, "--out", tmp_path / "t.svg")
    assert "recursive_erasure" in (tmp_path / "t.svg").read_text()
    with pytest.raises(TrothError, match="--format must be latex or markdown or csv or json or html, not 'pdf'"):
        called(report.report, store.folder, "--format", "pdf")


def test_query_gives_csv_with_lists_as_json(store):
    text = called(query.query, store.folder, "select [1, 2] as l, 'a,b' as t, null as n, 0.1 as x", "--csv")
    assert list(csv.reader(io.StringIO(text))) == [["l", "t", "n", "x"], ["[1, 2]", "a,b", "", "0.1"]]
    with pytest.raises(TrothError, match="--csv and --json cannot be combined; choose one"):
        called(query.query, store.folder, "select 1", "--csv", "--json")


def test_csv_text_by_hand():
    assert csv_text(["a", "b"], [[0.1, None], [float("nan"), 'x"y']]) == 'a,b\n0.1,\n,"x""y"\n'
