import pytest

from troth.core.errors import TrothError
from troth.data import load_data
from troth.explainers.leave_one_out import LeaveOneOut
from troth.store.cells import Cell
from troth.store.specs import ExplanationSpec
from troth.store.store import Store
from troth.store.tables import examples_to_table
from troth.sweep import parts
from troth.sweep.context import Context
from troth.sweep.crossing import cross
from troth.sweep.parts import parts_of
from troth.sweep.run import run
from troth.sweep.workers import from_bytes, to_bytes

METRICS = ["aopc_comprehensiveness", "recursive_erasure(step=0.5)"]


def planned(context, explainers=("leave_one_out",)):
    return cross(context, ["embedded"], [load_data("reviews").limit(7, seed=0)], explainers, METRICS)


def rows(store):
    store.refresh()
    return {cell.name: store.table(cell.name).to_pylist() for cell in store.cells()}


def test_long_cells_are_cut_and_stored_whole(tmp_path, monkeypatch):
    context = Context()
    plan = planned(context)
    whole = Store(tmp_path / "whole")
    assert run(plan, whole, context=context).complete
    monkeypatch.setattr(parts, "_PASSES", 12)
    steps = []
    cut = Store(tmp_path / "cut")
    assert run(plan, cut, context=context, progress=steps.append).complete
    assert len(steps) > len(plan) + 4
    assert {cell.name for cell in cut.cells()} == plan.cells.keys()
    before, after = rows(whole), rows(cut)
    for name, cell in plan.cells.items():
        assert [row["example_id"] for row in after[name]] == [row["example_id"] for row in before[name]]
        column = {"explanation": "scores", "metric": "value"}.get(cell.kind)
        if column is not None:
            for ours, theirs in zip(after[name], before[name], strict=True):
                assert ours[column] == pytest.approx(theirs[column], abs=1e-5)
    passes = [sum(cell.forward for cell in store.cells()) for store in (whole, cut)]
    assert passes[0] == passes[1]


@pytest.mark.full
def test_two_workers_share_a_long_cell_and_give_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "_PASSES", 12)
    context = Context()
    plan = planned(context)
    stores = [Store(tmp_path / str(workers)) for workers in (1, 2)]
    for workers, store in enumerate(stores, start=1):
        assert run(plan, store, workers=workers, context=context).complete
    assert rows(stores[0]) == rows(stores[1])


def test_a_part_that_fails_fails_its_cell(tmp_path, monkeypatch):
    asked = []

    def once(self, questions):
        asked.append(questions)
        raise TrothError("this text cannot be explained")
        yield

    monkeypatch.setattr(parts, "_PASSES", 12)
    monkeypatch.setattr(LeaveOneOut, "ask", once)
    context = Context()
    outcome = run(planned(context), Store(tmp_path / "run"), context=context)
    assert [failed.error for failed in outcome.failed] == ["this text cannot be explained"]
    assert (len(outcome.blocked), outcome.left, len(asked)) == (2, 0, 1)


def test_where_a_cell_is_cut():
    table = examples_to_table(load_data("reviews").limit(40, seed=0))

    def tasks(explainer, **more):
        specs = {"explainer_full": explainer, "units": "word", "examples": 40, **more}
        return parts_of(Cell("explanation", specs, ("data",), ExplanationSpec.runner), [to_bytes(table)])

    assert [len(tasks(explainer)) for explainer in ("random", "leave_one_out", "tf_idf")] == [1, 1, 1]
    several = tasks("lime(samples=1000)")
    assert 4 < len(several) < 12
    ids = [row for task in several for row in from_bytes(task.tables[0]).column("example_id").to_pylist()]
    assert ids == table.column("example_id").to_pylist()
    assert len({task.cell.name for task in several}) == len(several)
    assert sum(from_bytes(task.tables[0]).num_rows for task in tasks("lime(samples=1000)", first=30)) == 30
    assert len(tasks("lime(samples=1000)", explainer_code="ab")) == 1
