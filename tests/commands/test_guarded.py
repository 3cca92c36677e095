"""Small promises of the command line: no silent nothing, no wrong remedy, nothing that another program would obey."""

import errno
import os

import pytest
from safetensors import SafetensorError

import fakes
from serving import client_of
from troth.core.errors import TrothError
from troth.core.files import cannot_write, remedy
from troth.core.types import Example
from troth.models.black_box import BlackBox
from troth.report import figures
from troth.report.export import csv_text
from troth.store.store import Store
from troth.sweep import bench as benching
from troth.sweep.plan_file import PlanFile
from troth.sweep.run import run
from troth.verbs.explain import explain

FAILING = "def broken(model, example):\n    raise ValueError('no')\n"


@pytest.mark.parametrize("explainers", ["mine.py:broken", "mine.py:broken,gradient"])
def test_a_bench_with_an_explainer_that_failed_says_so_to_scripts(troth, tmp_path, explainers):
    (tmp_path / "mine.py").write_text(FAILING)
    options = ["--limit", 4, "--metrics", "sparsity", "--workers", 1]
    left, out, err = troth("bench", "-e", explainers, *options)
    assert left == 2, out + err
    assert "ValueError: no" in out + err


def test_a_plan_without_seeds_is_refused(tmp_path):
    plan = 'models = ["embedded"]\ndata = ["reviews"]\nexplainers = ["random"]\nmetrics = ["sparsity"]\nseeds = []\n'
    (tmp_path / "plan.toml").write_text(plan)
    with pytest.raises(TrothError, match="line 5: seeds is empty, so there is nothing to do"):
        PlanFile.read(tmp_path / "plan.toml")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "make room"),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), "make room"),
        (SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"), "make room"),
        (OSError(errno.EROFS, os.strerror(errno.EROFS)), "make its folder writable"),
        (PermissionError(errno.EACCES, "Permission denied"), "make its folder writable"),
    ],
)
def test_room_is_asked_for_only_where_there_is_none(tmp_path, monkeypatch, error, line):
    assert remedy(error) == line
    if isinstance(error, OSError):
        plan = benching.plan_of(benching.Context(), "embedded", [Example("0", "a film")], ["random"], ["sparsity"])

        def refuse(store, **_):
            raise cannot_write(store.folder, error) from error

        monkeypatch.setattr(Store, "note", refuse)
        with pytest.raises(TrothError, match=f"finished cells are safe: {line} and run the same command again"):
            run(plan, Store(tmp_path / "run"))


def test_too_few_examples_are_counted_as_taken_not_as_all_there_are(troth):
    code, _, err = troth("check", "--data", "reviews", "--limit", 4)
    assert code == 2
    assert "8 examples of reviews are too few" in err
    assert "reviews has 8" not in err


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "@SUM(1)", "+1", "-1+2", "\t=1", "\r=1", "  =1", "\n=1"])
def test_no_cell_of_a_csv_is_a_formula(text):
    heading, row = csv_text([text, "b"], [[text, -0.5]]).split("-0.5")[0].replace('"', "").split(",b\n")
    assert heading.startswith("'")
    assert row.startswith("'")


def test_texts_and_numbers_of_a_csv_stay_as_they_are():
    assert csv_text(["a", "b"], [["a = b", -0.5], ["x@y", 3]]) == "a,b\na = b,-0.5\nx@y,3\n"


@pytest.mark.parametrize("ending", [".svg", ".pdf"])
def test_a_figure_holds_no_raw_control_characters(ending):
    model = BlackBox(fakes.planted(), labels=["no\x1b[2J", "yes\x9b"])
    found = explain(model, [Example("id\x1b]0;x\x07", "an aw\x1bful film", None)], "leave_one_out")
    figure = figures.plot([found.sheet()])
    drawn = figures.as_file(figure, ending)
    if ending == ".svg":
        assert not {b"\x1b", b"\x07", b"\x9b"} & {bytes([byte]) for byte in drawn}
        assert b"\\x1b" in drawn
    figure.draw_without_rendering()
    texts = [label.get_text() for axes in figure.axes for label in [*axes.get_yticklabels(), axes.title]]
    assert any("\\x1b" in text for text in texts)
    assert not any("\x1b" in text for text in texts)


def test_a_run_whose_name_is_not_utf8_is_listed_and_opens(tmp_path):
    model = BlackBox(fakes.planted(), labels=["no", "yes"])
    name = os.fsdecode(b"run-\xff")
    benching.bench(model, fakes.CORPUS[:4], ["random"], ["sparsity"], tmp_path / name, progress=False)
    with client_of({"rule": model}, tmp_path) as client:
        page = client.get("/")
        assert page.status_code == 200
        assert "run-\\xff" in page.text
        assert client.get("/api/runs").json()[0]["run"].endswith("run-\\xff")
        for address in ("/runs/run-%5Cxff", "/api/runs/run-%5Cxff", "/api/runs/run-%5Cxff/report"):
            assert client.get(address).status_code == 200, address
