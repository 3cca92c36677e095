"""A finished training whose folder in files/ is gone is done again where something still needs it, and only there."""

import shutil

import pytest
from tests.sweep.works import cell_of

from troth.store.cells import Plan
from troth.store.store import Store
from troth.sweep.run import run


def trainings():
    """Two trainings, each read by a cell."""
    plan = Plan()
    for number in (3, 4):
        training = plan.add(cell_of("training", {"number": number}))
        plan.add(cell_of("reading", {}, (training.name,)))
    return plan


def value(store, cell):
    return store.table(cell.name).column("value")[0].as_py()


@pytest.fixture
def folder(tmp_path):
    assert run(trainings(), Store(tmp_path / "run")).complete
    return tmp_path / "run"


def test_it_is_done_again_for_what_is_made_from_it(folder):
    shutil.rmtree(folder / "files")
    plan = trainings()
    first, second = plan.of("training")
    reading = plan.add(cell_of("reading", {"again": True}, (first.name,)))
    outcome = run(plan, Store(folder))
    assert (outcome.complete, outcome.computed, outcome.stored) == (True, 2, 3)
    store = Store(folder)
    assert value(store, reading) == 3.0
    assert [path.name for path in (folder / "files").iterdir()] == [first.name]  # nobody needs the second
    assert len(store.names()) == len(store.cells()) == 5
    assert store.has(second.name)


def test_it_is_done_again_for_a_cell_that_only_names_it(folder):
    plan = trainings()
    first, _ = plan.of("training")
    reading, _ = plan.of("reading")
    for path in (folder / "files" / first.name).iterdir():  # an empty folder is no better than none
        path.unlink()
    grandchild = plan.add(cell_of("naming", {"model": f"cell:{first.name}"}, (reading.name,)))
    outcome = run(plan, Store(folder))
    assert (outcome.complete, outcome.computed, outcome.stored) == (True, 2, 3)
    assert value(Store(folder), grandchild) == 3.0


def test_nothing_is_done_where_nothing_needs_it(folder):
    shutil.rmtree(folder / "files")
    outcome = run(trainings(), Store(folder))
    assert (outcome.complete, outcome.computed, outcome.stored) == (True, 0, 4)
    assert not (folder / "files").exists()
