import pytest

from troth.store import cells
from troth.store.cells import Cell, Plan, find_function


def test_the_name_is_what_decides_the_result():
    cell = Cell("metric", {"metric": "sufficiency", "seed": 0, "ratios": (0.1, 0.2)}, ("a", "b"))
    same = Cell("metric", {"ratios": [0.1, 0.2], "seed": 0, "metric": "sufficiency"}, ("a", "b"))
    assert cell.name == same.name
    assert cell == same
    assert len({cell, same}) == 1
    others = [
        Cell("check", cell.specs, cell.parents),
        Cell("metric", {**cell.specs, "seed": 1}, cell.parents),
        Cell("metric", {**cell.specs, "seed": "0"}, cell.parents),
        Cell("metric", cell.specs, ("b", "a")),
        Cell("metric", cell.specs),
    ]
    assert len({other.name for other in others} | {cell.name}) == 6


def test_the_name_changes_with_the_format(monkeypatch):
    before = Cell("metric", {"seed": 0}).name
    monkeypatch.setattr(cells, "FORMAT_VERSION", cells.FORMAT_VERSION + 1)
    assert Cell("metric", {"seed": 0}).name != before


def test_names_do_not_change_by_accident():
    # Stored results are found again by this name: changing it needs a new FORMAT_VERSION.
    assert Cell("metric", {"seed": 0, "é": [None, True, 0.5]}, ("a",)).name == "7850f07b03cd5bcb88535af94378b82e"


def test_specs_are_plain():
    with pytest.raises(ValueError, match="plain values"):
        Cell("metric", {"metric": object()}).name
    with pytest.raises(ValueError, match="plain values"):
        Cell("metric", {"ratio": float("nan")}).name
    with pytest.raises(ValueError, match="one word"):
        Cell("two words", {})


def test_a_plan_holds_a_cell_once():
    plan = Plan()
    first = plan.add(Cell("explanation", {"seed": 0}))
    plan.add(Cell("explanation", {"seed": 0}))
    plan.add(Cell("metric", {"seed": 0}, (first.name,)))
    assert len(plan) == 2
    assert [cell.kind for cell in plan.of("metric")] == ["metric"]


def test_a_work_is_found_by_its_path():
    assert find_function("tests.sweep.works:numbers").__name__ == "numbers"
