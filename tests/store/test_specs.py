"""What cells are made of keeps its name, and a kind names its runner."""

from dataclasses import dataclass, replace

import pytest

from troth.store.cells import Cell, find_function
from troth.store.specs import CheckSpec, ExplanationSpec, MetricSpec, ModelSpec, Spec

EXPLANATION = ExplanationSpec(
    model="embedded", model_fingerprint="f", data="reviews", split=None, examples=3, data_fingerprint="d",
    units="word", target="predicted", against=None, segments="first", masking="mask_token()", explainer="lime",
    explainer_full="lime(samples=1000)", seed=0,
)  # fmt: skip
STORED = {
    "model": "embedded", "model_fingerprint": "f", "data": "reviews", "split": None, "examples": 3,
    "data_fingerprint": "d", "units": "word", "target": "predicted", "against": None, "segments": "first",
    "masking": "mask_token()", "explainer": "lime", "explainer_full": "lime(samples=1000)", "seed": 0,
}  # fmt: skip


def test_a_cell_has_the_name_that_runs_of_before_gave_it():
    assert EXPLANATION.cell("data") == Cell("explanation", STORED, ("data",))
    metric = MetricSpec(**vars(EXPLANATION), metric="sufficiency", metric_full="sufficiency(ratio=0.2)")
    of_metric = {**STORED, "metric": "sufficiency", "metric_full": "sufficiency(ratio=0.2)"}
    assert metric.cell("e", "data") == Cell("metric", of_metric, ("e", "data"))


def test_what_has_its_default_is_left_out_and_nothing_else():
    assert EXPLANATION.to_dict() == STORED
    some = replace(EXPLANATION, first=2, magnitude=False, over_sum=True, model_options={"max_length": 8})
    assert some.to_dict() == {
        **STORED, "first": 2, "magnitude": False, "over_sum": True, "model_options": {"max_length": 8},
    }  # fmt: skip


def test_a_stored_cell_is_read_back_also_as_part_of_another():
    cell = EXPLANATION.cell("data")
    assert ExplanationSpec.of(cell) == EXPLANATION
    assert ModelSpec.of(cell) == ModelSpec(model="embedded", model_fingerprint="f")
    later = {**STORED, "from_a_later_troth": 1}
    assert ExplanationSpec.from_dict(later) == EXPLANATION
    with pytest.raises(TypeError, match="explainer_full"):
        ExplanationSpec.from_dict({key: value for key, value in STORED.items() if key != "explainer_full"})


def test_models_are_told_apart_by_options_and_weights():
    plain = ModelSpec(model="m")
    keys = {plain.key, replace(plain, model_options={"max_length": 8}).key, replace(plain, model_fingerprint="f").key}
    assert len(keys) == 3
    assert plain.key == replace(plain, model_options={}).key


def test_every_kind_names_a_work_that_there_is():
    for spec in (ExplanationSpec, MetricSpec, CheckSpec):
        assert callable(find_function(spec.runner))


def test_a_kind_of_a_study_is_a_dataclass_next_to_its_work():
    @dataclass(frozen=True, kw_only=True)
    class Coin(Spec):
        kind = "coin"
        work = "tests.sweep.works:numbers"

        number: int
        sides: tuple[str, ...] = ()

    cell = Coin(number=2, sides=("head", "tail")).cell(EXPLANATION.cell("data"))
    assert (cell.kind, cell.runner) == ("coin", Coin.runner)
    assert cell.specs == {"number": 2, "sides": ["head", "tail"]}
    assert cell.parents == (EXPLANATION.cell("data").name,)
    assert cell == replace(cell, runner="elsewhere:other")  # who carries it out does not rename it
