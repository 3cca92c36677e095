from collections import Counter

from troth.store.cells import Cell
from troth.sweep.graph import Ready, share


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
    explanations = [Cell("explanation", {"model": "a", "explainer_full": f"method_{number}()"}) for number in range(80)]
    for explanation in explanations:
        metric = Cell("metric", {**explanation.specs, "metric_full": "sufficiency()"}, (explanation.name,))
        assert share(metric, 4) == share(explanation, 4)
    counts = Counter(share(explanation, 4) for explanation in explanations)
    assert set(counts) == {0, 1, 2, 3}
    assert max(counts.values()) < 40
