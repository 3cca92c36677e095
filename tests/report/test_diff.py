import math

import numpy as np
import pyarrow as pa
import pytest

from troth import statistics
from troth.core.types import Score
from troth.report.diff import diff
from troth.store.cells import Cell
from troth.store.store import Store
from troth.store.tables import scores_to_table


def write(store, values, **specs):
    metric = {"metric": "sufficiency", "metric_full": "sufficiency(ratio=0.2, rounding='floor', masking='delete')"}
    cell = Cell("metric", {"model": "m", "explainer": "lime", "seed": 0, **metric, **specs})
    store.write(cell, scores_to_table(map(str, range(len(values))), [Score(value) for value in values]))


@pytest.fixture
def stores(tmp_path):
    first, second = Store(tmp_path / "first"), Store(tmp_path / "second")
    first.note(versions={"torch": "2.11", "python": "3.11"}, seeds=[0])
    second.note(versions={"torch": "2.13", "python": "3.11"}, seeds=[0])
    return first, second


NOISE = np.random.default_rng(0).normal(0, 0.1, 50)


def test_numbers_that_moved_beyond_their_intervals(stores):
    first, second = stores
    write(first, 0.5 + NOISE, explainer="lime")
    write(second, 0.5 + NOISE[::-1] + 0.001, explainer="lime")
    write(first, 0.5 + NOISE, explainer="random")
    write(second, 0.9 + NOISE, explainer="random")
    write(first, NOISE, explainer="gone")
    found = diff(first, second)
    assert found.about == {"versions.torch": ("2.11", "2.13")}
    assert found.specs == {"explainer": (["gone"], [])}
    assert found.only == (1, 0)
    moved = {number.specs["explainer"]: number for number in found.numbers}
    assert {name: number.moved for name, number in moved.items()} == {"lime": False, "random": True}
    assert moved["random"].change == pytest.approx(0.4)
    assert moved["lime"].change == pytest.approx(0.001)
    before = moved["random"].before
    assert (before.low, before.high) == statistics.bca_interval(0.5 + NOISE)


def test_a_spec_that_is_another_throughout_is_what_is_compared(stores):
    first, second = stores
    for seed in range(3):
        write(first, 0.5 + NOISE + seed / 100, seed=seed)
        write(second, 0.6 + NOISE + seed / 100, seed=seed + 10, model="other")
    found = diff(first, second)
    assert found.specs == {"model": (["m"], ["other"]), "seed": ([0, 1, 2], [10, 11, 12])}
    (number,) = found.numbers
    assert number.before.value == pytest.approx(0.51 + NOISE.mean())
    assert number.change == pytest.approx(0.1)
    # Three seeds of the same examples are averaged per example: they are not three times as many examples.
    interval = number.before.low, number.before.high
    assert interval == pytest.approx(statistics.bca_interval(0.51 + NOISE))
    assert (number.before.count, number.before.seeds) == (50, 3)
    assert number.before.spread == pytest.approx(0.01)
    assert "seed" not in number.specs


def test_equal_runs_do_not_differ(stores):
    first, second = stores
    for store in stores:
        write(store, NOISE)
        write(store, [0.25] * 4, explainer="constant")
        write(store, [math.nan] * 4, explainer="undefined")
    found = diff(first, second)
    assert (found.specs, found.only, found.moved, len(found.numbers)) == ({}, (0, 0), [], 3)
    assert {number.change for number in found.numbers if number.specs["explainer"] != "undefined"} == {0.0}


def test_metrics_that_sum_themselves_up_and_metrics_nobody_knows(stores):
    first, second = stores
    record = {"ratios": [0.0, 0.5, 1.0], "label": 1, "explained": [1, 0, 0], "random": [1, 1, 0]}
    names = {"metric": "recursive_erasure", "metric_full": "recursive_erasure(step=0.5, masking='mask_token')"}
    for store in stores:
        table = scores_to_table(["a", "b"], [Score(0.5, record), Score(0.5, record)])
        store.write(Cell("metric", {"explainer": "lime", **names}), table)
        write(store, [1.0, 2.0, 6.0], metric="mine", metric_full="mine()")
    found = {number.specs["metric"]: number for number in diff(first, second).numbers}
    # Between the curves of performance 1 0 0 and 1 1 0 lies an area of 1/2; the largest there can be is 3/4.
    assert found["recursive_erasure"].before.value == pytest.approx(2 / 3)
    assert found["mine"].before.value == 3.0


def test_failed_cells_are_counted(stores):
    first, second = stores
    first.fail(Cell("metric", {"metric": "sufficiency"}), "broke")
    second.write(Cell("training", {}), pa.table({"loss": [1.0]}))
    found = diff(first, second)
    assert (found.failed, found.numbers) == ((1, 0), [])
