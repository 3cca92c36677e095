import itertools
import types
from pathlib import Path

import pyarrow as pa
import pytest
from tests.sweep.works import ladder

from troth.commands._sweeping import print_estimate
from troth.core.types import Example
from troth.data import load_data
from troth.explainers.beam_search import BeamSearch
from troth.explainers.leave_one_out import LeaveOneOut
from troth.models.black_box import BlackBox
from troth.store.cells import Cell, Plan
from troth.store.store import Store
from troth.store.tables import examples_to_table
from troth.sweep import context as sweep_context
from troth.sweep import estimate, trial, workers
from troth.sweep.context import Context
from troth.sweep.crossing import cross
from troth.sweep.estimate import Estimator
from troth.sweep.pace import Pace, Remaining
from troth.sweep.passes import passes


def cell(kind="metric", **specs):
    return Cell(kind, specs)


def test_the_likest_cells_decide():
    pace = Pace()
    assert pace.expect(cell(metric="a", model="m")) is None
    pace.learn("metric", {"metric": "a", "model": "m", "examples": 10}, 20.0)  # 2 s an example
    pace.learn("metric", {"metric": "a", "model": "n", "examples": 10}, 80.0)  # 8 s
    pace.learn("metric", {"metric": "b", "model": "m", "examples": 10}, 110.0)  # 11 s
    assert pace.expect(cell(metric="a", model="m", examples=3)) == 6.0
    assert pace.expect(cell(metric="a", model="other", examples=3)) == 15.0  # (20 + 80) / 20 · 3
    assert pace.expect(cell(metric="c", model="m", examples=2)) == 13.0  # (20 + 110) / 20 · 2
    assert pace.expect(cell("explanation", explainer="a")) is None


def test_a_method_seen_on_another_model_counts_by_how_much_slower_this_one_is():
    def explained(explainer, model):
        return {"explainer": explainer, "explainer_full": explainer, "model": model, "data": "d", "examples": 10}

    pace = Pace()
    pace.learn("explanation", explained("random", "small"), 1.0)
    pace.learn("explanation", explained("random", "large"), 30.0)
    quick = pace.expect(cell("explanation", **explained("gradient", "small")))
    pace.learn("explanation", explained("gradient", "small"), 5 * quick, passes=20)
    slow = pace.expect(cell("explanation", **explained("gradient", "large")))
    share = pace.expect(cell("explanation", **explained("gradient", "small"))) / quick
    assert share == pytest.approx(5)
    assert slow > 5 * 5 * quick  # as much slower as random is, less what gradient itself has added to the small model
    assert pace.expect_passes(cell("explanation", **explained("gradient", "large"))) == 20


def test_what_is_left_is_summed():
    cells = [cell(metric="a", examples=2, number=number) for number in range(3)] + [cell("explanation", number=9)]
    remaining = Remaining(cells)
    pace = Pace()
    assert remaining.seconds(pace) is None
    pace.learn("metric", {"metric": "a", "examples": 1}, 5.0)
    assert remaining.seconds(pace) == 40.0  # three of 10 s, and one unknown like them
    remaining.remove(cells[0])
    remaining.remove(cells[3])
    assert remaining.seconds(pace) == 20.0
    remaining.remove(cells[1])
    remaining.remove(cells[2])
    assert remaining.seconds(pace) == 0.0


def test_stored_seconds_tell_how_long_the_rest_takes(tmp_path):
    plan = ladder(4, 2, explainer="one for all")
    store = Store(tmp_path / "run")
    for number, cell in enumerate(plan.cells.values()):
        if number < 6:
            store.write(cell, pa.table({"value": [1.0]}), {"seconds": 3.0})
    store.fail(list(plan.cells.values())[-1], "broke")
    found = Estimator(store).estimate(plan, workers=2)
    assert (dict(found.cells), found.finished, found.failed, found.to_do) == ({"explanation": 4, "metric": 8}, 6, 1, 5)
    assert found.seconds == pytest.approx(5 * 3.0 / 2)
    assert found.probed == 0
    assert Estimator(store).estimate(plan, retry=True).to_do == 6
    assert not (tmp_path / "run" / "claims").exists()


def test_without_stored_cells_a_few_examples_are_tried(in_workshop):
    context = Context()
    plan = cross(context, ["first"], [load_data("data.jsonl")], ["leave_one_out", "random"], ["sufficiency"], (0, 1, 2))
    store = Store("results")
    found = Estimator(store, context).estimate(plan)
    assert (found.to_do, found.finished, found.probed) == (12, 1, 3)
    assert found.seconds > 0
    assert not (in_workshop / "results").exists()


def test_what_takes_too_many_passes_is_reckoned_not_carried_out(in_workshop, monkeypatch):
    def never(self, question):
        raise AssertionError("a dry run must not search")

    monkeypatch.setattr(BeamSearch, "ask", never)
    ticks = itertools.count()
    clock = types.SimpleNamespace(perf_counter=lambda: next(ticks))  # every piece of work takes as long as any other
    monkeypatch.setattr(workers, "time", clock)
    monkeypatch.setattr(sweep_context, "time", clock)
    context = Context()
    long = [Example(str(place), "a good film " * 20, label=place % 2) for place in range(6)]
    metrics = ["sufficiency", "recursive_erasure(step=0.25, recompute=true)"]
    plan = cross(context, ["first"], [load_data(long)], ["beam_search", "random"], metrics)
    seconds = {}

    def keep(self, kind, specs, took, examples=6, passes=None):
        seconds[kind, specs["explainer"], specs.get("metric", "").partition("(")[0]] = took / examples

    monkeypatch.setattr(Pace, "learn", keep)
    Estimator(Store("results"), context).estimate(plan)
    searching = seconds["explanation", "beam_search", ""]
    passes = BeamSearch().passes(60)
    assert passes > 10_000
    assert searching > 100 * seconds["explanation", "random", ""]
    # It explains again at two steps and for the gold class; a metric that only reads scores costs what it costs of any.
    assert seconds["metric", "beam_search", "recursive_erasure"] > 2 * searching
    assert seconds["metric", "beam_search", "sufficiency"] < searching / 10


@pytest.fixture
def study(monkeypatch, tmp_path):
    """A study's plan of two metrics on 40 texts, and what is tried of it: 0.4 seconds for each text."""
    monkeypatch.chdir(tmp_path)
    plan, tried = Plan(), []
    data = plan.add(Cell("data", {"data": "reviews"}), examples_to_table(load_data("reviews", limit=40)))
    for metric in ("comprehensiveness", "monotonicity"):
        specs = {"explainer_full": "leave_one_out(of='logit')", "metric_full": metric}
        plan.add(Cell("judged", specs, (data.name,), "tests.sweep.works:numbers"))

    def carry_out(task, context):
        rows = workers.from_bytes(task.tables[0]).num_rows
        tried.append(task.cell.specs["metric_full"])
        table = workers.to_bytes(pa.table({"value": [1.0]}))
        return types.SimpleNamespace(error="", table=table, seconds=0.4 * rows, forward=0, backward=0)

    monkeypatch.setattr(trial, "carry_out", carry_out)
    return plan, tried, Estimator(Store(tmp_path / "run"))


def test_an_estimate_that_fails_says_why(study, monkeypatch, capsys):
    plan, _, estimator = study
    failed = types.SimpleNamespace(error="cannot load a-model", table=b"", seconds=0.0, forward=0, backward=0)
    monkeypatch.setattr(trial, "carry_out", lambda task, context: failed)
    print_estimate(plan, Path("run"), estimator, 1, False, False)
    assert capsys.readouterr().out.endswith("time: unknown: cannot load a-model\n")


def test_a_long_text_is_timed_by_few_passes(monkeypatch):
    def scores(texts):
        read.append(len(texts))
        return [[0.5, 0.5]] * len(texts)

    read = []
    monkeypatch.setattr(estimate, "_QUICK", 0.0)
    model, methods = BlackBox(scores, labels=["no", "yes"], name="f"), {"leave_one_out": LeaveOneOut()}
    long = [Example("a", " ".join(f"word{place}" for place in range(2000)))]
    assert estimate.seconds_to_explain(model, long, methods, {"leave_one_out": 2001}) > 0
    assert sum(read) < 100


@pytest.mark.parametrize(("per_pass", "methods"), [(1.0, 1), (0.02, 22)])
def test_a_slow_model_and_many_methods_are_timed_in_half_a_minute(monkeypatch, per_pass, methods):
    now = [0.0]

    def scores(texts):
        now[0] += per_pass * len(texts)
        return [[0.5, 0.5]] * len(texts)

    monkeypatch.setattr(estimate, "time", types.SimpleNamespace(perf_counter=lambda: now[0]))
    model = BlackBox(scores, labels=["no", "yes"], name="f")
    named = {f"method {place}": LeaveOneOut() for place in range(methods)}
    text = [Example("a", " ".join(f"word{place}" for place in range(60)))]
    seconds = estimate.seconds_to_explain(model, text, named, dict.fromkeys(named, 61))
    assert seconds == pytest.approx(61 * methods * per_pass, rel=0.05)
    assert now[0] < 30


def test_each_method_of_a_study_is_tried_and_scaled_to_all_examples(study):
    plan, tried, estimator = study
    assert estimator.estimate(plan).seconds == pytest.approx(2 * 0.4 * 40)
    assert sorted(tried) == ["comprehensiveness", "monotonicity"]


def test_late_kinds_are_tried_once_and_the_other_cells_counted_by_their_passes(study, monkeypatch):
    monkeypatch.setattr(trial, "SECONDS", -1.0)
    plan, tried, _ = study
    estimator = Estimator(Store("run"))
    first, second = (pace_of(metric) for metric in ("comprehensiveness", "monotonicity"))
    assert estimator.estimate(plan).seconds == pytest.approx(0.4 * 40 * (1 + second / first))
    assert tried == ["comprehensiveness"]


def pace_of(metric):
    """The work of a text: its passes at 24 units, and what is done beside them."""
    return 6 + passes("leave_one_out(of='logit')", metric, 24)
