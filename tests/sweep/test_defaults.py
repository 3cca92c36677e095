"""What a bench does where nothing is named suits the model, can be checked, and stands for the data."""

import copy
from collections import Counter

import pytest
from tests.validity.test_checking import sentences
from tests.validity.test_references import saved

import fakes
from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.data import load_data
from troth.data._base import shared_out
from troth.models.black_box import BlackBox
from troth.models.encoder import Encoder
from troth.sweep import bench as benching
from troth.sweep.context import Context
from troth.sweep.plan_file import PlanFile
from troth.training.record import usual_masking
from troth.validity.checking import check

DATA = [Example(str(place), text, label=place % 3, rationale=((0, 3),)) for place, text in enumerate(fakes.CORPUS)]


def planned(model, data=DATA, explainers=None, metrics=None, **options):
    return benching.plan_of(Context(), model, data, explainers, metrics, **options)


def specs(plan, kind, name):
    return list(dict.fromkeys(cell.specs[name] for cell in plan.of(kind)))


# How units are erased


def test_a_model_is_measured_with_the_masking_it_was_trained_for(tmp_path):
    trained = saved(tmp_path / "zero", "masked(train='50/50', masking='zero')")
    assert usual_masking(trained) == "zero"
    assert usual_masking(saved(tmp_path / "plain", "plain()")) == "mask_token"
    tokenizer = copy.deepcopy(fakes.tokenizer_for("bert"))  # which all tests share
    tokenizer.mask_token = None
    assert usual_masking(Encoder(fakes.hf_model("bert"), tokenizer, name="no mask")) == "delete"
    plan = planned(str(tmp_path / "zero"), [Example(str(i), text, label=i % 2) for i, text in enumerate(fakes.CORPUS)])
    assert specs(plan, "explanation", "masking") == ["zero"]
    assert specs(plan, "check", "masking") == ["zero"]
    named = planned(str(tmp_path / "zero"), DATA[:1], ["random"], ["sufficiency"], masking="mask_token")
    assert specs(named, "explanation", "masking") == ["mask_token"]
    assert specs(named, "metric", "metric") == ["sufficiency"]  # what is named stays as it is


def test_the_metrics_that_decide_can_be_checked_by_default():
    plan = planned(fakes.encoder())
    metrics = [catalog.build("metrics", spec) for spec in specs(plan, "metric", "metric")]
    deciding = {catalog.name_of(metric): metric.masking for metric in metrics if not metric.why_not_deciding}
    assert deciding == dict.fromkeys(("aopc_comprehensiveness", "aopc_sufficiency", "recursive_erasure"), "mask_token")
    assert specs(plan, "check", "masking") == ["mask_token"]
    assert "rationale_agreement" in specs(plan, "metric", "metric")


def test_what_is_named_is_checked_by_its_own_masking(tmp_path):
    metrics = ["log_odds", "comprehensiveness(masking='zero')", "aopc_comprehensiveness", "soft_comprehensiveness"]
    texts = sentences(64, seed=20)
    board = benching.bench(fakes.encoder(), texts, ["leave_one_out"], metrics, tmp_path / "run").leaderboard
    for metric, masking in zip(metrics[:2], ("mask_token", "zero"), strict=True):
        by_ratio = check(fakes.encoder(), texts, masking=masking).by_ratio("random")
        assert board.stamps[metric].p == pytest.approx(by_ratio[2])  # both erase a fifth
    assert board.stamps[metrics[2]].why == "MaSF says nothing of inputs erased by delete"
    assert board.stamps["soft_comprehensiveness(scores='min_max')"].why.startswith("soft fades units by their scores")
    heads = [column.name for column in board.sheet().columns[1:5]]
    assert heads == ["log_odds", "comprehensiveness by zero", "aopc_comprehensiveness", "soft_comprehensiveness"]


def test_a_black_box_gets_what_can_explain_it(tmp_path):
    model = BlackBox(fakes.planted(), name="rule")
    texts = [Example("0", "an awful film"), Example("1", "a long dull awful plot")]
    plan = planned(model, texts)
    assert specs(plan, "explanation", "explainer") == ["random", "leave_one_out", "lime", "kernel_shap"]
    finished = benching.bench(model, texts, out=tmp_path / "run")
    assert finished.outcome.complete
    assert not finished.leaderboard.failures
    assert {name.partition("(")[0] for name in finished.leaderboard.metrics} == {
        "aopc_comprehensiveness", "aopc_sufficiency",
    }  # fmt: skip


# Random


def test_random_is_always_there_in_sweeps_too(in_workshop):
    plan_file = in_workshop / "alone.toml"
    for given, planned in (
        ('"gradient"', ["random", "gradient"]),
        ('["gradient", "random()"]', ["gradient", "random"]),
    ):
        plan_file.write_text(f'models = "first"\ndata = "data.jsonl"\nexplainers = {given}\nmetrics = "sparsity"\n')
        assert specs(PlanFile.read(plan_file).plan(Context()), "explanation", "explainer") == planned


# A sample


def test_a_limit_draws_every_class_by_its_share():
    """A sorted file: its first rows are of one class."""
    data = load_data([Example(str(place), f"text {place}", label=int(place >= 60) + int(place >= 85))
                      for place in range(100)])  # fmt: skip
    drawn = data.sample(20)
    assert Counter(example.label for example in drawn) == {0: 12, 1: 5, 2: 3}
    places = [int(example.id) for example in drawn]
    assert places == sorted(places)
    assert places[:12] != list(range(12))
    assert [example.id for example in drawn] == [example.id for example in data.sample(20)]
    assert [example.id for example in drawn] != [example.id for example in data.sample(20, seed=1)]
    assert drawn.notes == ("20 of 100 examples, drawn with seed 0, every class by its share",)
    assert len(drawn.whole) == 100
    assert data.sample(100) is data
    with pytest.raises(TrothError, match="limit must be at least 1, not 0"):
        data.sample(0)


def test_parts_are_rounded_by_the_largest_remainder():
    assert shared_out(3, [1, 1, 1, 1]) == [1, 1, 1, 0]
    assert shared_out(7, [50, 30, 20]) == [4, 2, 1]  # 3.5, 2.1, 1.4


def test_a_bench_draws_from_data_of_any_kind(tmp_path):
    data = load_data(DATA)
    chosen = [example.id for example in data.sample(3)]
    for given in (data, DATA):
        plan = planned(fakes.encoder(), given, ["random"], ["sparsity"], limit=3)
        (cell,) = plan.of("data")
        assert plan.tables[cell.name].column("example_id").to_pylist() == chosen
