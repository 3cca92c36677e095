"""Commands that pages print: those of the first pages run as they stand, the others name options that exist."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from troth import cli

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
# With the embedded model, offline; a bench with all its metrics takes most of a minute.
RUN = ("data", pytest.param("five_minutes", marks=pytest.mark.full), "paper_table")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def printed(page):
    """Every troth command of a page's blocks, its parts apart; comments, outputs and other programs left out."""
    for language, block in FENCED.findall(page.read_text(encoding="utf-8")):
        for line in [] if language == "python" else block.replace("\\\n", " ").splitlines():
            for command in re.split(r"; (?=troth )", line.removeprefix("$ ")):
                if command.startswith("troth ") and "…" not in command:
                    parts = shlex.split(command, comments=True)
                    yield parts[1 : parts.index(">")] if ">" in parts else parts[1:]


COMMANDS = [(page.name, command) for page in PAGES for command in printed(page)]


def test_there_is_something_to_check():
    assert len(COMMANDS) > 40
    assert ["doctor"] in [command for _, command in COMMANDS]


@pytest.mark.parametrize(
    ("page", "command"), COMMANDS, ids=lambda part: " ".join(part) if isinstance(part, list) else part
)
def test_commands_and_options_are_there(page, command):
    group = typer.main.get_command(cli.app)
    name, *rest = command
    if name.startswith("--"):
        assert name in {option for parameter in group.params for option in parameter.opts} | {"--version"}
        return
    assert name in group.commands, f"{page} names troth {name}"
    assert (wrong := fault(group.commands[name], rest)) is None, f"{page}: troth {' '.join(command)}: {wrong}"


def fault(command, arguments):
    """What is wrong with the options, as the parser sees them; the models and files named need not be here."""
    try:
        command.make_parser(typer.Context(command)).parse_args(list(arguments))
    except Exception as error:
        return str(error)
    return None


def test_a_wrong_option_is_seen():
    bench = typer.main.get_command(cli.app).commands["bench"]
    assert fault(bench, ["--explainers", "lime", "--limit", "3"]) is None
    assert "--explaners" in fault(bench, ["--explaners", "lime"])


@pytest.mark.parametrize("name", RUN)
def test_first_pages_run_as_they_stand(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / f"{name}.md"
    if name == "data":
        (tmp_path / "reviews.csv").write_text(
            'review,stars\nBest soup in town.,positive\n"Cold, slow and loud.",negative\nI would come again.,positive\n'
        )
    commands = list(printed(page))
    assert len(commands) > 1
    for command in commands:
        one_process = ["--workers", "1"] if command[0] == "bench" else []
        monkeypatch.setattr("sys.argv", ["troth", *command, *one_process])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code, f"{command}: {capsys.readouterr().err}"
        assert "Traceback" not in capsys.readouterr().err
    if name == "paper_table":
        assert r"\begin{tabular}" in (tmp_path / "table.tex").read_text(encoding="utf-8")
        assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")
