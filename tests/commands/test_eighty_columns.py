"""Every screen at 80 columns: no line is longer, and no word is cut."""

import io
import re
import sys
from dataclasses import replace

import pytest
import typer
from rich.cells import cell_len
from tests.report.boards import board, many, stored

from troth import cli
from troth.commands._gate import CANNOT_TELL
from troth.core.terminal import Console
from troth.report.answer import cautions
from troth.report.board import leaderboards
from troth.report.screen import closing, in_full, table
from troth.validity.stamp import Stamp

WIDTH = 80
GROUP = typer.main.get_command(cli.app)
SHORT = "A slow start, but what a wonderful ending."
LONG = (
    "A wonderful film: we saw it on a rainy Sunday with my mother and two of her friends, and all of us left the "
    "theater happy, humming the songs, and telling strangers at the bus stop to go."
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("eighty")
    stored(place / "run")
    return place


@pytest.fixture
def screen(monkeypatch, capsys, folder):
    """What a command prints on a terminal of 80 columns."""

    def shown(*arguments):
        monkeypatch.chdir(folder)
        monkeypatch.setenv("COLUMNS", str(WIDTH))
        monkeypatch.setattr(sys, "argv", ["troth", *arguments])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capsys.readouterr()
        assert left.value.code in (None, 0, CANNOT_TELL), err
        return out

    return shown


def joined(text):
    return " ".join(text.split())


def check_widths(text):
    assert [line for line in text.splitlines() if cell_len(line.rstrip()) > WIDTH] == []


@pytest.mark.parametrize("name", [None, *GROUP.commands])
def test_help(screen, name):
    shown = screen(*([name] if name else []), "--help")
    check_widths(shown)
    flat = joined(shown)
    command = GROUP.commands[name] if name else GROUP
    for option in command.params:
        assert all(written in flat for written in option.opts)
        # The parser breaks lines after a hyphen, which is as it should be in a word, not in an option's name.
        assert joined(option.help or "") in re.sub(r"(?<=\w- )(?=\w)", "", flat).replace("- ", "-") or (
            joined(option.help or "") in flat
        )
    for line in shown.splitlines():
        assert not re.search(r"--[\w-]*-$", line), f"the name of an option is broken: {line}"
    if name is None:
        for each in GROUP.commands.values():
            assert joined(each.short_help) in flat


@pytest.mark.parametrize("kind", ["explainers", "metrics", "maskings", "datasets", "recipes", "bases", "studies"])
def test_list(screen, kind):
    shown = screen("list", kind)
    check_widths(shown)
    whole = joined(screen("list", kind, "--json"))
    for cut in re.findall(r"(\w+)…", shown):
        assert re.search(rf"\b{re.escape(cut)}(?!\w)", whole), f"{cut} is cut"


@pytest.mark.parametrize("text", [SHORT, LONG], ids=["short", "long"])
def test_explain(screen, text):
    shown = screen("explain", text, "-e", "leave_one_out,attention")
    check_widths(shown)
    proofs = [line for line in shown.splitlines() if "Without its top" in line]
    assert len(proofs) == 2
    pattern = r"  Without its top (\d+) of \d+ words: \d+ % → \d+ %\. Without \1 random words: \d+–\d+ %\."
    assert all(re.fullmatch(pattern, line.rstrip()) for line in proofs)
    at = next(place for place, line in enumerate(shown.splitlines()) if line.startswith(("No method", "Most faithful")))
    assert shown.splitlines()[at + 2] == "" or shown.splitlines()[at + 1] == ""  # a verdict of one or two lines


PLAUSIBLE = ("rationale_agreement", "rationale_agreement(top=25)")
METRICS = ("--metrics", "comprehensiveness,sufficiency", "--workers", "1")
# Each on a terminal, after the ones before it; a second run has other texts, so the two differ.
SCREENS = (
    ("bench", "--limit", "6", "-e", "gradient,random", *METRICS, "--out", "runs/before"),
    ("bench", "--limit", "5", "-e", "gradient,random", *METRICS, "--out", "runs/after", "--seed", "1", "--verbose"),
    ("bench", "--limit", "4", "-e", "gradient,random", *METRICS, "--dry-run"),
    ("diff", "runs/before", "runs/after", "--all"),
    ("diff", "runs/before", "runs/after", "--texts"),
    ("runs",),
    ("doctor",),
    ("cite", "runs/before"),
    ("cite", "runs/before", "--format", "latex"),
    ("check", "--limit", "30", "-e", "random", "--step", "0.5"),
    ("check", "--randomization", "--limit", "3", "-e", "gradient"),
    ("sweep", "plan.toml", "--workers", "1"),
    ("sweep", "plan.toml", "--dry-run"),
    ("verify", "runs/before", "--sample", "9"),
    ("runs", "runs/before"),
    ("study", "roar", "--only", "synthetic", "--dry-run"),
    ("explain", SHORT, "-e", "gradient", "--record", "records"),
    ("verify", "records"),
    ("explain", SHORT, "--interactions"),
    ("explain", SHORT, "--pair", LONG, "-e", "leave_one_out"),
    ("explain", "--data", "reviews", "-e", "gradient", "--only", "wrong", "--limit", "8"),
    ("bench", "--limit", "6", "-e", "gradient,random", *METRICS, "--out", "runs/before", "--baseline", "runs/after"),
    ("explain", SHORT, "--dry-run"),
    ("list", "lime"),
    ("list", "comprehensiveness"),
    ("query", "runs/before", "select * from leaderboard"),
    ("query", "runs/before", "select * from cells"),
    ("report", "runs/before"),
    ("referee", "gradient", "--only", "completeness"),
)
# Terms of ours that a screen says, and what it says about them where they first appear.
EXPLAINED = {
    r"\bcells?\b": r"cells \(pieces of work\)",
    r"\bMaSF\b": r"are erased inputs in distribution\?|compares the model's states",
    r"\bRACU\b": r"relative to|RACU = ",
    r"\bunit\b": r"unit: a word|units?, |units are erased|The (unit|token)'s",
}


def test_screens_of_all_commands(screen, folder, monkeypatch):
    plan = 'models = ["embedded"]\ndata = ["reviews"]\nlimit = 4\nexplainers = ["random"]\nmetrics = ["sufficiency"]\n'
    (folder / "plan.toml").write_text(plan)
    wide, torn_off, unexplained = {}, {}, {}
    for arguments in SCREENS:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("TERM", "dumb")  # no colors
        shown = screen(*arguments)
        assert shown.strip(), arguments
        if too_wide := [line for line in shown.splitlines() if cell_len(line.rstrip()) > WIDTH]:
            wide[arguments] = too_wide
        # A number stays on the line of its percent sign, and a score on that of its unit.
        if torn := [line for line in shown.splitlines() if re.match(r"\s*(%|[+−]\d\S*(,|$))", line)]:
            torn_off[arguments] = torn
        for term, meaning in EXPLAINED.items():
            if re.search(term, shown) and not re.search(meaning, joined(shown)):
                unexplained[arguments] = term
        if (first := re.search(r"\bcells?\b.*", joined(shown))) and not first[0].startswith(("cell (p", "cells (p")):
            unexplained[arguments] = first[0]  # where it first appears, not only somewhere
    assert wide == {}
    assert torn_off == {}
    assert unexplained == {}


@pytest.mark.parametrize("terminal", [True, False])
def test_an_error_breaks_between_words_on_a_terminal_only(monkeypatch, capsys, terminal):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "argv", ["troth", "explain", SHORT, "-e", "loo"])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    lines = capsys.readouterr().err.splitlines()
    if terminal:
        check_widths("\n".join(lines))
    assert (len(lines) > 1) == terminal
    start = "troth: no explainer is called 'loo'; did you mean leave_one_out? there are: alti,"
    assert " ".join(lines).startswith(start)
    assert " sequential_integrated_gradients," in " ".join(lines)


def test_bench(folder):
    for one in (*leaderboards_of(folder / "run"), many(), many(metrics=2), worst()):
        for lines in ([table(one)], closing(one), in_full(one)):
            console = Console(width=WIDTH, file=io.StringIO())
            for line in lines:
                console.print(line)
            check_widths(console.file.getvalue())


def leaderboards_of(place):
    from troth.store.store import Store

    return leaderboards(Store(place))


def worst():
    """Everything that there is to beware of, with long names."""
    names = ("rationale_agreement", "normalized_sufficiency(masking='attention', clip=true)")
    values = {name: [0.1 + 0.1 * place, 0.2] for place, name in enumerate(("lime(samples=9)", "gradient", "random"))}
    one = board(
        values, dict.fromkeys(names, True), truncated=9, plausible=names[:1], skipped={"alti": "not of this model"},
        stamps={name: Stamp(0.0004, 0.5) for name in names},
    )  # fmt: skip
    return replace(one, failures={"deep_lift": "it failed " * 20})


def test_a_caution_is_one_line_however_many_metrics_it_names():
    names = [f"normalized_comprehensiveness(ratios=(0.{place},))" for place in range(1, 9)]
    every = (*names, *PLAUSIBLE)
    values = {explainer: [0.1] * len(every) for explainer in ("lime", "random")}
    one = board(values, dict.fromkeys(every, True), plausible=PLAUSIBLE)
    wide = {key: replace(summary, low=-3.0, high=3.0) for key, summary in one.summaries.items()}
    one = replace(one, summaries=wide, relative_to=dict.fromkeys(names, "the loss"))
    beware = [f"Beware: {caution.brief}." for caution in cautions(one)]
    assert len(beware) == 2
    assert [line for line in beware if cell_len(line) > WIDTH] == []
    assert beware[0] == "Beware: 8 metrics are unstable (divisor ≈ 0)."


def test_the_closing_of_a_bench_is_short():
    lines = [text.plain for text in closing(worst())]
    beware = [line for line in lines if line.startswith("Beware: ")]
    assert beware == [
        "Beware: erased inputs are out of distribution for the model (p < 0.001).",
        "Beware: 9 of 9 texts were cut off; read all with --model-option windows=true.",
        "Beware: rationale_agreement is agreement with humans, not faithfulness.",
    ]
    assert joined(" ".join(lines)).endswith("Fix what failed, then run the same command with --retry.")
