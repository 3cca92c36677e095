"""Real explainers and metrics as cells: the same numbers as without a store, on every engine."""

import shutil

import numpy as np
import pytest

from fakes import CORPUS, encoder
from troth.core.errors import TrothError
from troth.data import load_data
from troth.models import load_model
from troth.store.query import query
from troth.store.specs import ModelSpec
from troth.store.store import Store
from troth.store.tables import table_to_scores
from troth.sweep.context import Context
from troth.sweep.crossing import cross
from troth.sweep.plan_file import PlanFile
from troth.sweep.run import run
from troth.verbs.explain import explain
from troth.verbs.measure import measure


@pytest.fixture(scope="module")
def reference(workshop, tmp_path_factory):
    """The plan carried out in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(workshop)
        context = Context()
        plan = PlanFile.read("plan.toml").plan(context)
        store = Store(tmp_path_factory.mktemp("reference") / "run")
        outcome = run(plan, store, context=context)
    assert outcome.complete, outcome.failed
    return plan, store


def test_the_plan_is_the_whole_product(reference):
    plan, store = reference
    kinds = [cell.kind for cell in plan.cells.values()]
    whole = {"data": 1, "explanation": 2 * 3 * 2, "metric": 2 * 3 * 2 * 2, "check": 2}
    assert {kind: kinds.count(kind) for kind in kinds} == whole
    assert len(store.cells()) == sum(whole.values())
    about = store.about()
    assert [*about["models"]] == ["first", "second"]
    assert about["models"]["first"]["labels"] == ["LABEL_0", "LABEL_1"]
    assert about["data"]["data.jsonl"]["examples"] == len(CORPUS)
    assert about["seeds"] == [0, 1]


def test_cells_hold_what_explain_and_measure_give(reference, workshop):
    plan, store = reference
    model, data = load_model(str(workshop / "second")), load_data(workshop / "data.jsonl")
    for cell in plan.of("metric"):
        specs = cell.specs
        if specs["model"] != "second" or specs["seed"] != 1:
            continue
        made = explain(model, data, specs["explainer"], seed=1)
        stored = store.table(cell.parents[0])
        assert stored.column("example_id").to_pylist() == [f"e{number}" for number in range(len(CORPUS))]
        for attribution, scores in zip(made, stored.column("scores").to_pylist(), strict=True):
            assert np.array_equal(attribution.scores, np.array(scores, np.float32))
        direct = measure(model, made, specs["metric"], seed=1)
        assert [score.value for score in direct] == [score.value for score in table_to_scores(store.table(cell.name))]


def test_what_was_asked_of_the_model_is_counted(reference):
    _, store = reference
    for cell in store.cells():
        if cell.kind == "check":
            continue
        assert cell.rows == len(CORPUS)
        if cell.kind != "explanation":
            continue
        units = sum(map(len, store.table(cell.name).column("scores").to_pylist()))
        if cell.specs["explainer"] == "leave_one_out":  # the whole text, and without each unit
            assert (cell.forward, cell.backward) == (len(CORPUS) + units, 0)
        if cell.specs["explainer"] == "random":
            assert (cell.forward, cell.backward) == (len(CORPUS), 0)
        if cell.specs["explainer"] == "integrated_gradients(steps=3)":
            assert cell.backward == 3 * len(CORPUS)


@pytest.mark.full
def test_processes_give_the_same_numbers(reference, in_workshop):
    _, store = reference
    context = Context()
    methods = ["leave_one_out", "integrated_gradients(steps=3)"]
    plan = cross(context, ["first"], [load_data("data.jsonl")], methods, ["comprehensiveness"])
    other = Store("results")
    outcome = run(plan, other, workers=2, context=context)
    assert (outcome.computed, outcome.complete) == (4, True)
    assert all(other.table(name).equals(store.table(name)) for name in plan.cells)


def test_a_run_folder_holds_the_texts_it_is_about(reference):
    _, store = reference
    rows = query(store, "select example_id, text, label_index from examples order by 1").to_pylist()
    assert [row["text"] for row in rows] == CORPUS
    assert [row["label_index"] for row in rows] == [number % 2 for number in range(len(CORPUS))]


def test_a_model_that_changed_is_another_model(in_workshop, workshop):
    from fakes import hf_model, tokenizer_for

    shutil.rmtree(in_workshop / "second")
    hf_model(classes=2, seed=9).save_pretrained("second")
    tokenizer_for("bert").save_pretrained("second")
    context = Context()
    data = [load_data("data.jsonl", limit=2)]
    before = cross(context, ["first", "second"], data, ["random"], [])
    hf_model(classes=2, seed=10).save_pretrained("second")
    after = cross(Context(), ["first", "second"], data, ["random"], [])
    assert len(before.cells.keys() & after.cells.keys()) == 2  # the data, and what the first model says of it
    specs = next(cell.specs for cell in before.of("explanation") if cell.specs["model"] == "second")
    with pytest.raises(TrothError, match="model second has changed since this was planned"):
        Context().model(ModelSpec.from_dict(specs))


def test_options_of_a_model_are_part_of_it(in_workshop):
    context = Context()
    data = [load_data("data.jsonl", limit=2)]
    plan = cross(context, ["first", ("first", {"max_length": 5})], data, ["leave_one_out"], [])
    store = Store("results")
    assert run(plan, store, context=context).complete
    cut = {
        bool(cell.specs.get("model_options")): store.table(cell.name).column("truncated").to_pylist()
        for cell in plan.of("explanation")
    }
    assert cut[False] == [0, 0]
    assert all(units > 0 for units in cut[True])


def test_a_model_in_memory_works_in_this_process_alone(tmp_path):
    context = Context()
    data = load_data([("a good film", "the book was better")])
    plan = cross(context, [encoder()], [data], ["random"], ["sufficiency"])
    store = Store(tmp_path / "run")
    with pytest.raises(TrothError, match="tiny bert is in memory, where other processes cannot read it"):
        run(plan, store, context=context, workers=2)
    assert run(plan, store, context=context).complete
    assert run(plan, store, context=context, workers=2).complete  # nothing left to do


def test_one_bad_method_does_not_spoil_the_others(tmp_path):
    context = Context()
    data = load_data(["a good film", "a bad book"])  # without labels
    plan = cross(context, [encoder()], [data], ["random", "leave_one_out"], ["sufficiency"], target="gold")
    outcome = run(plan, Store(tmp_path / "run"), context=context)
    assert {failed.error for failed in outcome.failed} == {
        "example 0 has no label, so no gold class; use target predicted or name a class"
    }
    assert (len(outcome.failed), len(outcome.blocked)) == (2, 2)
