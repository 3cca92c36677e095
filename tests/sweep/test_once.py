"""A bench loads its data once and ranks once; a run depends on its arguments, not on what its process did before."""

import sys

import pytest
from tests.sweep.works import ladder

import fakes
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.data import load_data
from troth.models.encoder import Encoder
from troth.report import board, run_page
from troth.store.store import Store
from troth.sweep import bench as benching
from troth.sweep.bench import bench, plan_of
from troth.sweep.context import Context
from troth.sweep.crossing import cross
from troth.sweep.run import run

DATA = [Example(str(number), text, label=number % 3) for number, text in enumerate(fakes.CORPUS[:4])]


def model():
    return Encoder(fakes.hf_model("bert"), fakes.tokenizer_for("bert"), name="in memory")


def counted(monkeypatch, module, name):
    calls = []
    original = getattr(module, name)

    def call(*arguments, **options):
        calls.append(arguments)
        return original(*arguments, **options)

    monkeypatch.setattr(module, name, call)
    return calls


def test_the_report_of_a_bench_takes_its_leaderboard_as_it_is(tmp_path, monkeypatch):
    calls = counted(monkeypatch, board, "_leaderboard")
    ranked = bench(model(), DATA, ["random"], ["sparsity"], tmp_path / "run").leaderboard
    store = Store(tmp_path / "run")
    run_page.write_report(store, tmp_path / "report.html", [ranked])
    assert len(calls) == 1
    assert ranked.title in (tmp_path / "report.html").read_text()
    # A run that holds more than the leaderboard is ranked again.
    bench(model(), DATA, ["random", "gradient"], ["sparsity"], tmp_path / "run")
    run_page.write_report(Store(tmp_path / "run"), tmp_path / "report.html", [ranked])
    assert len(calls) == 3
    assert "gradient" in (tmp_path / "report.html").read_text()


def test_what_a_check_compares_with_is_not_read_again(monkeypatch):
    calls = counted(monkeypatch, benching, "load_data")
    options = {"limit": 5, "columns": {"label": ""}}
    plan = plan_of(Context(), model(), "reviews", ["random"], ["recursive_erasure(step=1.0)"], **options)
    (references,) = plan.of("references")
    taken = {example.id for example in load_data("reviews", label="").sample(5)}
    assert not set(plan.tables[references.name].column("example_id").to_pylist()) & taken
    assert len(calls) == 1


def test_a_limit_remembers_what_it_took_from():
    whole = load_data("reviews")
    limited = load_data("reviews", limit=3)
    assert [example.id for example in limited.whole] == [example.id for example in whole]
    assert [example.id for example in limited] == [example.id for example in whole][:3]


@pytest.mark.full
def test_a_model_in_memory_of_another_plan_is_no_obstacle(tmp_path):
    context = Context()
    in_memory = cross(context, [model()], [load_data(DATA)], ["random", "gradient"], [])
    with pytest.raises(TrothError, match="model in memory is in memory, where other processes cannot read it"):
        run(in_memory, Store(tmp_path / "one"), workers=2, context=context)
    assert run(ladder(2, 1), Store(tmp_path / "other"), workers=2, context=context).complete


def test_the_command_is_what_the_caller_says(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pytest", "--of", "somebody else"])
    store = Store(tmp_path / "run")
    run(ladder(1, 0), store)
    run(ladder(1, 0), store, command="troth bench")
    assert [session["command"] for session in store.about()["sessions"].values()] == ["", "troth bench"]
