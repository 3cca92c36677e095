"""Nothing that is read, whatever it holds and whichever command shows it, can command the terminal."""

from __future__ import annotations

import ast
import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sweep.works import cell_of, ladder

import fakes
import troth as package
from sampled import every
from troth.core import terminal
from troth.store.store import Store
from troth.sweep.run import run

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x08\x7f"
SHOWN = r"\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x08\x7f"
COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def evil_room(tmp_path_factory, room):
    """A model whose labels, data whose ids, texts and name, and runs whose names and errors hold control characters."""
    folder = tmp_path_factory.mktemp("evil")
    labels = {0: f"bad{EVIL}", 1: f"good{EVIL}"}
    names = {"id2label": labels, "label2id": {label: index for index, label in labels.items()}}
    fakes.hf_model(classes=2, **names).save_pretrained(folder / "model")
    fakes.wordpiece().save_pretrained(folder / "model")
    (folder / f"{EVIL}.jsonl").write_text(
        "".join(json.dumps({"id": f"{n}{EVIL}", "text": f"a film {EVIL} {n}", "label": n % 2}) + "\n" for n in range(3))
    )
    (folder / "obstacle").touch()
    plan = ladder(1, 1, evil=EVIL)
    plan.add(cell_of("failing", {"number": 1, "obstacle": str(folder / "obstacle"), "model": EVIL, "user_error": True}))
    for name in ("other", f"runs{EVIL}"):
        store = Store(folder / "runs" / name)
        run(plan, store, workers=1, command=EVIL)
    store.note(models={EVIL: {"notes": [EVIL]}}, data={EVIL: {}})
    (folder / "plan.toml").write_text(
        f'models = ["model"]\ndata = [{json.dumps(EVIL + ".jsonl")}]\nexplainers = ["random"]\nmetrics = ["sparsity"]\n'
    )
    return folder


TRIES = {
    "a text": ["explain", f"a {EVIL} film", "-m", "model"],
    "a second text": ["explain", "a film", "--pair", f"b {EVIL}", "--segments", "both", "-m", "model"],
    "a label": ["explain", "a film", "-m", "model"],
    "a target": ["explain", "a film", "-m", "model", "--target", EVIL],
    "a path to a page": ["explain", "a film", "-m", "model", "--html", f"{EVIL}.html"],
    "a model": ["explain", "a film", "-m", f"./{EVIL}"],
    "a spec": ["explain", "a film", "-e", EVIL],
    "an option": ["explain", "a film", f"--{EVIL}"],
    "a command": [EVIL],
    "texts as JSON": ["explain", f"a {EVIL} film", "-m", "model", "--json"],
    "names of runs": ["runs", "runs"],
    "names of runs as JSON": ["runs", "runs", "--json"],
    "a folder of runs": ["runs", EVIL],
    "a run": ["report", EVIL],
    "a cell of a query": ["query", "runs/other", f"select '{EVIL}' as a, evil from cells"],
    "a column of a query": ["query", "runs/other", f'select 1 as "{EVIL.replace(chr(7), "")}"'],
    "a query's cells as JSON": ["query", "runs/other", "select evil from cells", "--json"],
    "a query that is none": ["query", "runs/other", f'select "{EVIL}"'],
    "two runs": ["diff", f"runs/runs{EVIL}", "runs/other"],
    "a plan": ["sweep", f"{EVIL}.toml"],
    "a dry run": ["sweep", "plan.toml", "--out", f"new{EVIL}", "--dry-run"],
    "data": ["bench", "--data", f"{EVIL}.csv"],
    "data that is there": [
        *["bench", "-m", "model", "--data", f"{EVIL}.jsonl", "-e", "gradient", "--metrics", "sparsity"],
        *["--workers", "1", "--out", f"out{EVIL}"],
    ],
    "a kind": ["list", EVIL],
}


@pytest.mark.parametrize("what", every(3, TRIES))
def test_control_characters_are_shown(troth, evil_room, what):
    said = troth(*TRIES[what], room=evil_room)
    assert said.code in (0, 2), said.err
    assert "Traceback" not in said.err
    everything = said.out + said.err
    assert not COMMANDS.findall(everything)
    if "--json" in TRIES[what]:
        assert EVIL in json.dumps(json.loads(said.out), ensure_ascii=False) or r"\u001b]0;owned" in said.out
    else:
        # A table folds what is long.
        assert r"\x1b]0;owned" in everything.replace("\n", "").replace(" ", "")


@given(st.text())
def test_no_control_character_is_visible_and_nothing_else_changes(text):
    shown = terminal.visible(text)
    assert not COMMANDS.findall(shown)
    shown.encode()
    if not COMMANDS.findall(text) and not re.findall("[\ud800-\udfff]", text):
        assert shown == text
    assert json.loads(terminal.json_text([text])) == [text]
    assert json.loads(terminal.json_text([text], "ascii")) == [text]
    assert terminal.json_text([text], "ascii").isascii()
    assert not COMMANDS.findall(terminal.json_text([text]))


@given(st.text())
def test_a_console_obeys_nothing_it_is_given(text):
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    written = io.StringIO()
    console = terminal.Console(file=written, force_terminal=True, color_system="truecolor", width=40)
    table = Table(escape(text), box=None)
    table.add_row(escape(text))
    for shown in (text, Text(text, "bold"), table):
        console.print(shown, markup=False)
    ours = re.sub(r"\x1b\[[0-9;]*m", "", written.getvalue())
    assert not COMMANDS.findall(ours)


def test_a_library_cannot_command_the_terminal_either(monkeypatch):
    import sys

    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    with terminal.guarded():
        sys.stderr.write("\x1b[1mbold\x1b[0m \x1b]0;owned\x07 \x1b[2Jgone\r\n")
    assert written.getvalue() == "\x1b[1mbold\x1b[0m \\x1b]0;owned\\x07 \\x1b[2Jgone\r\n"
    assert sys.stderr is written


def test_everything_is_printed_through_one_place():
    source = Path(package.__file__).parent
    wrong = []
    for path in source.rglob("*.py"):
        if path.name == "terminal.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            told = ast.unparse(node) if isinstance(node, ast.Attribute | ast.ImportFrom) else ""
            if told in ("typer.echo", "from rich.console import Console", "sys.stderr.write", "click.echo"):
                wrong.append(f"{path.relative_to(source)}: {told}")
    assert not wrong, f"use troth.core.terminal: {wrong}"
