"""Commands that pages print: all name commands, options and methods that exist; those that need nothing from outside
run as they stand.
"""

import re
import shlex
from pathlib import Path

import pytest
import typer

from troth import cli
from troth.core import catalog, spec_text
from troth.core.errors import TrothError

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# What a command may name that is not here: models, data sets, servers, clusters, runs of one's own.
ELSEWHERE = re.compile(
    r"FOLDER|ENCODER|\bNAME\b|HuggingFaceTB|https?://|roberta|bert-base|\bmy-|my_package|mine\.py|decide\.py|my\.(csv|jsonl)"
    r"|mails|contracts|my_file\.py:(attribute|MyMetric)|\bsst2?\b|runs/(g|train-masked|other|shared|mine|decide)\b"
    r"|report runs/paper(?! --out)|beats_random|--engine|install-completion"
    r"|^troth serve"
)
# With the embedded model, offline. A bench with all its metrics takes most of a minute.
QUICK = ("docs/guide/data",)
LONG = (
    "README",
    "docs/guide/five_minutes",
    "docs/guide/how_long",
    "docs/guide/install",
    "docs/guide/interactions",
    "docs/guide/own_methods",
    "docs/guide/scaling",
    "docs/guide/showing",
    "docs/guide/validity",
    "docs/guide/verify",
    "docs/papers/roar/method",
    "docs/papers/soft/method",
    "docs/reference/glossary",
)
# Each by a test of its own.
ELSEWHERE_TESTED = ("docs/guide/ci", "docs/reference/new_model_kind", "docs/reference/new_study")
REVIEWS = 'review,stars\nBest soup in town.,positive\n"Cold, slow and loud.",negative\nI would come again.,positive\n'
MINE = """
from dataclasses import dataclass

from troth.core.types import Attribution
from troth.explainers import Explainer


@dataclass(frozen=True)
class MyExplainer(Explainer):
    signed = False

    def ask(self, question):
        yield from ()
        return Attribution(question, [len(unit) for unit in question.encoding.unit_texts], signed=False)
"""


def printed(page):
    """Every troth command of a page's blocks, its parts apart; comments, outputs and other programs left out."""
    for language, block in FENCED.findall(page.read_text(encoding="utf-8")):
        for line in [] if language == "python" else block.replace("\\\n", " ").splitlines():
            for command in re.split(r"; (?=troth )", line.removeprefix("$ ")):
                if command.startswith("troth ") and "…" not in command:
                    parts = shlex.split(command, comments=True)
                    yield parts[1 : parts.index(">")] if ">" in parts else parts[1:]


COMMANDS = [(page.relative_to(ROOT).with_suffix("").as_posix(), command) for page in PAGES for command in printed(page)]


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
    """What is wrong with the options, as the parser sees them, and with the methods they name; models and files need
    not be here.
    """
    try:
        values, *_ = command.make_parser(typer.Context(command)).parse_args(list(arguments))
    except Exception as error:
        return str(error)
    for option, kind in {"explainers": "explainers", "explainer": "explainers", "metrics": "metrics"}.items():
        given = values.get(option) or []
        for spec in [given] if isinstance(given, str) else given:
            for one in spec_text.split(spec):
                if ":" not in one.partition("(")[0]:  # a file of the reader's own
                    try:
                        (catalog.build if "(" in one else catalog.find)(kind, one)
                    except TrothError as error:
                        return str(error)
    return None


def test_a_wrong_option_or_method_is_seen():
    bench = typer.main.get_command(cli.app).commands["bench"]
    assert fault(bench, ["--explainers", "lime", "--limit", "3"]) is None
    assert fault(bench, ["--explainers", "my_file.py:Mine,lime(samples=50)"]) is None
    assert "--explaners" in fault(bench, ["--explaners", "lime"])
    assert "no explainer is called 'limes'" in fault(bench, ["-e", "gradient,limes"])
    assert "no metric is called 'suffix'" in fault(bench, ["--metrics", "suffix"])
    assert "sample" in fault(bench, ["-e", "lime(sample=50)"])


def test_commands_that_are_not_run_need_something_from_outside():
    run = {*QUICK, *LONG, *ELSEWHERE_TESTED}
    # Whole experiments, on pages of results, take hours.
    left = [
        (page, command)
        for page, command in COMMANDS
        if page not in run and not page.endswith(("/results", "/appendix"))
    ]
    assert [at for at in left if not ELSEWHERE.search(f"troth {' '.join(at[1])}")] == []


def smaller(command):
    """Options that make it one process and few examples, where the page leaves that open."""
    workers = command[0] in ("bench", "sweep") and "--workers" not in command
    many = command[0] == "bench" and "--limit" not in command
    return [*(["--workers", "1"] if workers else []), *(["--limit", "3"] if many else [])]


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.full) for name in LONG)])
def test_pages_run_as_they_stand(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = ROOT / f"{name}.md"
    for file in ("reviews.csv", "claims.csv"):
        (tmp_path / file).write_text(REVIEWS)
    (tmp_path / "my_file.py").write_text(MINE)
    (tmp_path / "key").write_bytes(bytes(32))
    for plan in re.findall(r"```toml\n# plan\.toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        (tmp_path / "plan.toml").write_text(plan)
    commands = [command for command in printed(page) if not ELSEWHERE.search(f"troth {' '.join(command)}")]
    assert commands
    for command in commands:
        monkeypatch.setattr("sys.argv", ["troth", *command, *smaller(command)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code, f"{command}: {capsys.readouterr().err}"
        assert "Traceback" not in capsys.readouterr().err
    if name == "docs/guide/showing":
        assert r"\begin{tabular}" in (tmp_path / "table.tex").read_text(encoding="utf-8")
        assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")
