import numpy as np
import pytest
from tests.validity.test_checking import sentences

from fakes import encoder, planted
from troth.core.units import word_spans
from troth.metrics.aopc_log_odds import AopcLogOdds
from troth.metrics.aopc_sufficiency import AopcSufficiency
from troth.metrics.comprehensiveness import Comprehensiveness
from troth.metrics.leave_one_out_correlation import LeaveOneOutCorrelation
from troth.metrics.log_odds import LogOdds
from troth.metrics.normalized_comprehensiveness import NormalizedComprehensiveness
from troth.metrics.recursive_erasure import RecursiveErasure
from troth.metrics.sparsity import Sparsity
from troth.metrics.sufficiency import Sufficiency
from troth.models.black_box import BlackBox
from troth.report.board_sheet import as_dict
from troth.statistics import simes
from troth.store.query import query
from troth.store.store import Store
from troth.sweep import bench as benching
from troth.validity.checking import check
from troth.validity.stamp import Stamp, stamps

METRICS = ["recursive_erasure(step=0.5)", "comprehensiveness", "sparsity"]


def test_each_metric_is_stamped_by_its_masking():
    metrics = {
        "a": RecursiveErasure(),
        "b": Comprehensiveness(),
        "c": Sparsity(),
        "d": RecursiveErasure(masking="zero"),
    }
    found = stamps(metrics, {0.0: 0.01, 0.5: 0.2, 1.0: 0.3}, "")
    # The whole input is not judged, but said; Simes: min(0.2 · 2 / 1, 0.3 · 2 / 2).
    assert (found["a"].p, found["a"].ratio, found["a"].whole) == (pytest.approx(0.3), 0.5, 0.01)
    assert [found[name].why for name in "bcd"] == [
        "MaSF says nothing of inputs erased by delete",
        "the metric erases nothing",
        "this run checked inputs erased by mask_token only; for others: troth check --masking zero",
    ]
    assert stamps(metrics, {}, "no check was run")["a"] == Stamp(why="no check was run")


def test_a_metric_is_judged_by_the_shares_it_erases():
    by_ratio = {0.0: 0.9, 0.1: 0.8, 0.2: 0.7, 0.5: 0.3, 1.0: 0.01}
    metrics = {"a": LogOdds(ratio=0.2), "b": LogOdds(ratio=0.01), "c": AopcLogOdds(), "d": RecursiveErasure()}
    found = stamps(metrics, by_ratio, "")
    assert [one.ratio for one in found.values()] == [0.2, 0.1, 0.5, 1.0]
    # 0.7, 0.8, min(0.3 · 3, 0.7 · 3 / 2, 0.8), 0.01 · 4
    assert [one.p for one in found.values()] == pytest.approx([0.7, 0.8, 0.8, 0.04])


def test_a_metric_that_keeps_a_share_is_judged_by_what_it_erases():
    by_ratio = {0.0: 0.9, 0.2: 0.01, 0.5: 0.6, 0.8: 0.5, 0.9: 0.4, 1.0: 0.02}
    masked = {"masking": "mask_token"}
    metrics = {
        "keeps a fifth": Sufficiency(ratio=0.2, **masked),
        "erases a fifth": Comprehensiveness(ratio=0.2, **masked),
        "keeps 1 to 50 %": AopcSufficiency(**masked),
        "and the empty text": NormalizedComprehensiveness(ratios=(0.8, 0.9), **masked),
        "one unit": LeaveOneOutCorrelation(),
    }
    found = stamps(metrics, by_ratio, "")
    assert [one.ratio for one in found.values()] == [0.8, 0.2, 1.0, 1.0, 0.2]
    # 0.5, 0.01, of 0.5, 0.8, 0.9 and 1: 0.02 · 4, of 0.8, 0.9 and 1: 0.02 · 3, 0.01
    assert [one.p for one in found.values()] == pytest.approx([0.5, 0.01, 0.08, 0.06, 0.01])


def test_the_masking_that_was_tested_is_the_one_that_is_stamped():
    metrics = {"zero": Comprehensiveness(masking="zero"), "mask": RecursiveErasure()}
    found = stamps(metrics, {0.0: 0.9, 0.2: 0.3, 1.0: 0.4}, "", tested="zero")
    assert found["zero"].p == pytest.approx(0.3)
    assert found["mask"].why.startswith(
        "this run checked inputs erased by zero only; for others: troth check --masking"
    )


def test_a_stamp_speaks():
    assert str(Stamp(0.43)) == "no evidence against (p = 0.43)"
    assert str(Stamp(0.0012)) == "out of distribution (p = 0.0012)"
    assert str(Stamp(why="no check was run")) == "not tested: no check was run"
    assert str(Stamp(0.0012, 0.9)) == "out of distribution (p = 0.0012, lowest at 90 % erased)"
    assert str(Stamp(0.4, 0.9, smallest=0.001)) == (
        "no evidence against (p = 0.4, lowest at 90 % erased; smallest possible 0.001)"
    )
    assert str(Stamp(0.01, 0.9, whole=0.002)) == (
        "out of distribution (p = 0.01, lowest at 90 % erased; whole inputs already are, p = 0.002)"
    )
    assert Stamp(0.05).verdict == "no evidence against"


@pytest.fixture(scope="module")
def benched(tmp_path_factory):
    data = sentences(64, seed=20)
    return data, benching.bench(
        encoder(), data, ["random", "gradient"], METRICS, tmp_path_factory.mktemp("run") / "run"
    )


def test_every_number_of_a_bench_is_stamped(benched):
    data, result = benched
    assert result.outcome.complete
    told = as_dict(result.leaderboard)
    checked = check(encoder(), data)
    by_ratio = checked.by_ratio("random")
    p, at = float(simes(by_ratio[1:])), (1 + by_ratio[1:].argmin()) / 10
    assert told["validity"]["recursive_erasure(step=0.5)"]["p"] == pytest.approx(p)
    assert told["validity"]["comprehensiveness"]["verdict"] == told["validity"]["sparsity"]["verdict"] == "not tested"
    expected = {
        "recursive_erasure(step=0.5)": str(Stamp(p, at, smallest=checked.smallest, whole=by_ratio[0])),
        "comprehensiveness": "not tested: MaSF says nothing of inputs erased by delete",
        "sparsity": "not tested: the metric erases nothing",
    }
    for row in told["rows"]:
        assert {metric: row[metric]["validity"] for metric in METRICS} == expected
    assert "erased inputs" in result.leaderboard._repr_html_()
    rows = query(Store(result.folder), "select count(*) as n, count(distinct ratio) as ratios from checks").to_pylist()
    assert rows == [{"n": 32 * 11, "ratios": 11}]


def test_out_of_distribution_is_warned_of(benched):
    board = benched[1].leaderboard
    outside = type(board)(**{**vars(board), "stamps": {**board.stamps, METRICS[0]: Stamp(0.001)}})
    assert any("out of distribution" in line and "troth train masked" in line for line in outside.answer())
    strange = type(board)(**{**vars(board), "stamps": {**board.stamps, METRICS[0]: Stamp(0.001, whole=0.002)}})
    (line,) = [line for line in strange.answer() if "out of distribution" in line]
    assert "whole texts already are (p = 0.002)" in line
    assert "troth train" not in line
    stamped = {**board.stamps, METRICS[0]: Stamp(0.5, smallest=0.01)}
    inside = type(board)(**{**vars(board), "stamps": stamped})
    assert not any("out of distribution" in line for line in inside.answer())
    (line,) = [line for line in inside.answer() if line.startswith("No evidence against")]
    assert line.startswith(
        "No evidence against (p = 0.5; it could have been as small as 0.01) that the erased inputs of"
    )


@pytest.mark.parametrize(
    ("model", "count", "why"),
    [
        (encoder(), 59, "59 examples of memory are too few: half of them would be the references, and MaSF needs 30"),
        (BlackBox(planted(), name="rule"), 60, "rule has no hidden states"),
    ],
)
def test_a_bench_that_cannot_be_checked_says_why_and_is_complete(tmp_path, model, count, why):
    metrics = ["recursive_erasure(step=1.0)"]
    result = benching.bench(model, sentences(count, seed=21), ["random"], metrics, tmp_path / "run")
    assert result.outcome.complete
    assert why in result.leaderboard.stamps[metrics[0]].why


def test_examples_beyond_the_limit_are_the_references(tmp_path):
    context = benching.Context()
    unlabelled = {"limit": 5, "columns": {"label": ""}}
    plan = benching.plan_of(context, encoder(), "reviews", ["random"], ["recursive_erasure(step=1.0)"], **unlabelled)
    (cell,) = plan.of("check")
    references = plan.tables[cell.parents[1]]
    tested = set(plan.tables[cell.parents[0]].column("example_id").to_pylist())
    assert references.num_rows >= 30
    lengths = [[len(word_spans(text)) for text in table.column("text").to_pylist()]
               for table in (plan.tables[cell.parents[0]], references)]  # fmt: skip
    assert min(lengths[0]) <= min(lengths[1])
    assert max(lengths[1]) <= max(lengths[0])
    assert not tested & set(references.column("example_id").to_pylist())
    plain = benching.plan_of(context, encoder(), "reviews", ["random"], ["sufficiency"], **unlabelled)
    assert not list(plain.of("check"))
    assert np.all([cell.specs["masking"] == "mask_token" for cell in plan.of("check")])
