from collections import Counter

from tests.sweep.works import ladder
from troth.sweep.cells import Cell
from troth.sweep.ready import Ready, share


def cell(model, number):
    return Cell("explanation", {"model": model, "number": number})


def drained(ready, last=None):
    order = []
    while (found := ready.pop(last)) is not None:
        order.append((found.specs["model"], found.specs["number"]))
        last = found.specs["model"]
    return order


def test_a_worker_stays_with_its_model():
    ready = Ready()
    for number in range(4):
        ready.push(cell("ab"[number % 2], number))
    ready.push(cell("b", 9), first=True)
    assert len(ready) == 5
    assert drained(ready, last="a") == [("a", 0), ("a", 2), ("b", 9), ("b", 1), ("b", 3)]


def test_a_new_worker_takes_the_model_with_the_most_work():
    ready = Ready()
    for model, number in (("a", 0), ("b", 1), ("b", 2)):
        ready.push(cell(model, number))
    assert drained(ready) == [("b", 1), ("b", 2), ("a", 0)]


def test_a_shard_takes_its_own_first_and_then_the_rest():
    cells = [cell("a", number) for number in range(40)]
    by_seed = [Cell("explanation", {**one.specs, "seed": one.specs["number"]}) for one in cells]
    first = [one for one in by_seed if share(one, 3) == 0]
    assert 5 < len(first) < 25
    ready = Ready((1, 3))
    for one in by_seed:
        ready.push(one)
    order = [number for _, number in drained(ready)]
    assert order[: len(first)] == [one.specs["seed"] for one in first]
    assert sorted(order) == list(range(40))


def test_an_explanation_and_its_metrics_are_one_shards():
    plan = ladder(30, 3)
    for metric in plan.of("metric"):
        parent = plan.cells[metric.parents[0]]
        assert share(metric, 4) == share(parent, 4)
    assert len(Counter(share(one, 4) for one in plan.cells.values())) == 4
