"""What benchmarks/ counts and compares."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertModel

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:  # "floor", "page": names that others may use, too
        if str(FOLDER) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_the_floor_against_what_torch_counts():
    import floor
    from inputs import Size

    size, tokens = Size(3, 32), 7
    config = BertConfig(hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=128)
    model = BertModel(config, add_pooling_layer=False)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(input_ids=torch.ones(1, tokens, dtype=torch.int64))
    whole = 3 * sum(floor._layer(size, tokens))
    assert counter.get_total_flops() == whole
    # The last layer without queries (1), output (1) and the wide layers (8) of all tokens but one, and their attention.
    saved = (tokens - 1) * (2 * 10 * 32**2 + 4 * tokens * 32)
    assert floor.forward(size, tokens) == whole - saved


def test_what_has_fallen():
    from check import fallen

    now = {"a / captum": 1.61, "b / shap": 1.0, "c / hand": 3.0}
    assert fallen({"a / captum": 2.0, "c / hand": 2.5}, now) == {}
    assert fallen({"b / shap": 1.3, "d / lime": 2.0}, now) == {
        "b / shap": "was 1.3, is 1.0",
        "d / lime": "was 2.0, could not be measured",
    }


def test_ratios_out_of_a_run():
    from check import ratios

    def row(name, ratio):
        return {"name": name, "ratio": ratio}

    short = {"key": "leave_one_out 6 × 384 short", "contenders": [
        row("floor", 1.1), row("troth", 1.0), row("captum (best)", 1.396), row("captum (default)", 2.6),
    ]}  # fmt: skip
    other = {"key": "leave_one_out 12 × 768 one", "contenders": [row("captum (best)", 1.2)]}
    failed = {"key": "lime 6 × 384 one", "contenders": [{"name": "lime", "error": "not installed"}]}
    assert ratios([short, other, failed]) == {"leave_one_out 6 × 384 short / captum (best)": 1.4}


def test_every_checked_work_is_there():
    from check import CHECKED, selection

    assert {work.key for work in selection()} == set(CHECKED)


def test_a_section_is_put_in_its_place(tmp_path):
    import page

    path = tmp_path / "page.md"
    path.write_text("# A\n\n<!-- x -->\nold\n<!-- /x -->\n\nend\n")
    page.put(path, ("<!-- x -->", "<!-- /x -->"), "new")
    assert path.read_text() == "# A\n\n<!-- x -->\nnew\n<!-- /x -->\n\nend\n"
    page.put(path, ("<!-- y -->", "<!-- /y -->"), "more")
    assert path.read_text().endswith("end\n\n<!-- y -->\nmore\n<!-- /y -->\n")


def test_whoever_fails_is_named_with_the_reason():
    import page

    row = {"name": "solvex", "error": "ImportError: no solvex"}
    ours = {"name": "troth", "ms": 2.0, "memory": 1.0, "ratio": 1.0, "same": True}
    result = {
        "work": "beam_search", "size": "6 × 384", "texts": "beam", "options": {},
        "contenders": [ours, {"name": "troth (fast)", "error": "none"}, row],
    }  # fmt: skip
    assert page.table([result]).endswith("| solvex | | | | | ImportError: no solvex |")


def test_how_busy_a_gpu_was():
    from gpu_bench import busy

    seen = [0, 0, 0, 0, 0, 40, 100, 100, 0, 60, 0, 0]
    assert busy(seen) == {
        "busy": 25.0, "busy_once_begun": 42.9, "busy_at_work": 60.0, "course": [0, 60, 15]
    }  # fmt: skip
    assert busy([]) == {"busy": None}
    assert busy([0, 0])["busy_at_work"] == 0


def test_a_command_that_does_not_end_is_killed_with_its_children():
    from gpu_bench import killed

    child = "import time; time.sleep(60)"
    script = (
        "import signal, subprocess, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"process = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "print(process.pid, flush=True); process.wait()"
    )
    working = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert working.stdout.readline().strip().isdigit()
    killed(working, patience=0.2)
    assert working.returncode == -signal.SIGKILL
    assert working.stdout.read() == ""  # ends only when nobody holds it open any more


def test_the_referees_table_shows_only_what_a_second_script_confirms(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER / "referee"))
    import table

    def method(name, status, why=None):
        row = {
            "property": "dummy",
            "says": "Says.",
            "status": status,
            "why": why,
            "expected": "0",
            "got": "a|b",
            "text": "",
        }
        return {"method": name, "properties": [row], "claims": [], "of": "logit", "badge": "x: 1/1", "seconds": 1.0}

    one = {"library": "one", "versions": {"one": "1.2"}, "methods": [method("a", "holds"), method("b", "fails")]}
    other = {"library": "other", "versions": {}, "methods": [method("c", "not supported", "no pairs")]}
    assert list(table.failures([one, other])) == [("one", "dummy")]
    page = table.page([one, other], {("one", "dummy"): "it showed"})
    assert "| property | one 1.2 | other |" in page
    assert "| `dummy` | [✗](#one-dummy) | – |" in page
    assert "without troth: `benchmarks/referee/confirm/one_dummy.py` prints: it showed" in page
    assert r"got: a\|b" in page
    assert "- other: `dummy` (c): no pairs" in page
    assert "| `dummy` | ? | – |" in table.page([one, other], {("one", "dummy"): None})


def test_every_confirmation_of_the_referee_is_named(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER / "referee"))
    from known_issues import ISSUES, KNOWN
    from table import LIBRARIES

    scripts = {path.stem for path in (FOLDER / "referee" / "confirm").glob("[a-z]*.py")}
    assert set(KNOWN) <= scripts
    assert all(name in KNOWN or name.startswith(LIBRARIES) for name in scripts)
    assert {f"{library}_{name}" for library, name in ISSUES} <= scripts


def test_the_summary_for_users_is_that_of_the_table():
    import page
    import summary

    text = summary.PAGE.read_text(encoding="utf-8")
    rows = summary.measured(text)
    assert summary.summary(rows) in text, "run python benchmarks/summary.py"
    readme = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    (line,) = [line for line in readme.splitlines() if "time of the same explanation" in line]
    spans = {name: summary.span(own).removesuffix(" times") for name, own in summary.by_library(rows).items()}
    shown = [cell.strip() for cell in line.strip("|").split("|")][1:]
    assert shown == ["1", spans["Captum"], "not comparable", spans["Interpreto"], spans["SHAP"], spans["ferret"]]
    slower = page.MARKS[0] + "\n| `lime` | a | 24 | 1.0 | 5 | 1.1 | shap | 1.0 | 4 | 0.91 | | same |\n" + page.MARKS[1]
    assert "**Slower**: `lime` against SHAP." in summary.summary([*summary.measured(slower), *rows])


def test_what_the_readme_says_of_the_referee_is_in_its_table():
    readme = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    (line,) = [line for line in readme.splitlines() if "known-answer checks" in line]
    referee = (FOLDER.parent / "docs" / "reference" / "referee.md").read_text(encoding="utf-8").splitlines()
    table = [[cell.strip() for cell in row.strip("|").split("|")] for row in referee if row.startswith("| `")]
    (head,) = [row for row in referee if row.startswith("| property | captum")]
    libraries = [cell.split()[0] for cell in head.strip("|").split("|")]
    table = [row for row in table if len(row) == len(libraries)]
    failed = {name: sum(row[place].startswith("[✗]") for row in table) for place, name in enumerate(libraries)}
    shown = [cell.strip() for cell in line.strip("|").split("|")][2:]
    assert f"of {len(table)}" in line
    assert shown == [str(failed[name]) for name in ("captum", "inseq", "interpreto", "shap", "ferret")]
