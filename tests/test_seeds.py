"""Seeds are averaged per example; tests, intervals and letters are about examples, however many seeds there are."""

import json

import numpy as np
import pytest

from troth import seeds, statistics
from troth.core import catalog
from troth.core.types import Score
from troth.metrics import formulas
from troth.metrics._diagnosticity import diagnosticity
from troth.report.board import leaderboards
from troth.report.board_sheet import as_dict
from troth.report.diff import diff
from troth.store.cells import Cell
from troth.store.store import Store
from troth.store.tables import EXPLANATIONS, scores_to_table

nan = float("nan")
SETTING = {
    "model": "m", "model_fingerprint": "f", "data": "d", "data_fingerprint": "g", "units": "word",
    "target": "predicted", "segments": "first", "masking": "mask_token",
}  # fmt: skip


def store_explanation(store, explainer, ids, seed, **specs):
    cell = Cell("explanation", {**SETTING, "explainer": explainer, "seed": seed, **specs})
    rows = [{"example_id": example_id, "truncated": 0} for example_id in ids]
    store.write(cell, EXPLANATIONS.empty_table().from_pylist(rows, schema=EXPLANATIONS))
    return cell


def store_scores(store, explainer, scores, seed=0, metric="sufficiency", ids=None, **specs):
    """One explanation and one metric cell; scores are numbers or whole scores."""
    names = [str(place) for place in range(len(scores))] if ids is None else ids
    given = [score if isinstance(score, Score) else Score(score) for score in scores]
    parent = store_explanation(store, explainer, names, seed, **specs)
    full = catalog.spec(catalog.build("metrics", metric), full=True)
    cell = Cell("metric", {**parent.specs, "metric": metric, "metric_full": full}, (parent.name,))
    store.write(cell, scores_to_table(names, given))


def run(folder, **about):
    store = Store(folder)
    store.note(seeds=[0], **about)
    return store


def board_of(store):
    (board,) = leaderboards(store)
    return board


def curve_score(generator):
    """What recursive_erasure keeps of an example: five points, two classes; the explanation mostly flips first."""
    first, later = sorted(generator.integers(1, 5, size=2))
    curves = [[1] * flip + [0] * (5 - flip) for flip in (first, later)]
    record = {"ratios": [0, 0.25, 0.5, 0.75, 1], "label": 1, "explained": curves[0], "random": curves[1]}
    return Score(float(generator.normal()), record)


# --- the reduction


def test_the_mean_over_seeds_by_hand():
    by_seed = [[1.0, nan, nan, 0.1], [3.0, 5.0, nan, 0.1], [2.0, 7.0, nan, 0.1]]
    np.testing.assert_array_equal(seeds.mean_over_seeds(by_seed), [2, 6, nan, 0.1])  # (0.1 + 0.1 + 0.1) / 3 is not 0.1
    # Over the examples that all seeds define: means 0.55, 1.55, 1.05.
    assert seeds.spread(by_seed) == pytest.approx(0.5)
    assert np.isnan(seeds.spread([[1.0, 2.0]]))
    value, low, high = seeds.over_seeds([[0.0, 1.0], [], [0.0, 1.0]])
    assert (value, low + high) == (0.5, pytest.approx(1))
    assert seeds.difference([[1.0, 3.0], []], [[0.0, 1.0], [5.0, 5.0]]).mean == 1.5


def test_fifteen_differences_keep_their_p_with_five_seeds():
    differences = np.array([-1, 2, -3, -4, 5, 6, -7, -8, -9, 10, -11, 12, -13, -14, 15]) / 100
    alone = statistics.paired_test(differences, np.zeros(15))[1]
    pooled = statistics.paired_test(np.tile(differences, 5), np.zeros(75))[1]
    assert (round(alone, 2), round(pooled, 2)) == (0.6, 0.21)  # what counting seeds as examples did
    assert statistics.paired_test(seeds.mean_over_seeds([differences] * 5), np.zeros(15))[1] == alone


# --- leaderboards


METRICS = ("sufficiency", "rationale_agreement", "recursive_erasure")
STRENGTHS = {"random": 0.0, "weak": 0.05, "fair": 0.15, "good": 0.6}


def deterministic_run(folder, seeds_of):
    """Explainers whose scores are the same with every seed; `seeds_of` says which seeds each is run with."""
    store = run(folder)
    for explainer, strength in STRENGTHS.items():
        for metric in METRICS:
            for seed in seeds_of[explainer]:
                generator = np.random.default_rng(list(f"{explainer}{metric}".encode()))
                if metric == "recursive_erasure":
                    scores = [curve_score(generator) for _ in range(15)]
                elif metric == "rationale_agreement":
                    counts = generator.integers(1, 5, size=(15, 3)).tolist()
                    record = [{"token_counts": one, "span_counts": [1, *one[1:]], "auprc": 0.5} for one in counts]
                    scores = [Score(one[0] / sum(one), found) for one, found in zip(counts, record, strict=True)]
                else:
                    scores = list(generator.normal(-strength, 0.25, size=15))
                store_scores(store, explainer, scores, seed, metric)
    return store


def without_seeds(board):
    """All that is shown of a board but how many seeds there were."""
    plain = as_dict(board)
    for row in plain["rows"]:
        for cell in row.values():
            if isinstance(cell, dict):
                cell.pop("seeds")
                cell.pop("seed_spread")
    plain.pop("answer")  # it says how many seeds
    told = {
        "sentences": board.meta.sentences(),
        "shares": [[one.metric, one.value, one.low, one.high, *one.advantage] for one in board.meta.diagnosticities],
        "each": [dict(one.by_explainer) for one in board.meta.diagnosticities],
        "comparisons": [[one.p, one.adjusted_p] for one in board.meta.comparisons],
        "agreement": {" ".join(pair): value for pair, value in board.meta.agreement.items()},
    }
    return json.loads(json.dumps([plain, told]))


def assert_alike(one, other):
    """Equal, numbers up to rounding."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_alike(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            assert_alike(*pair)
    else:
        assert one == (pytest.approx(other, rel=1e-9, abs=1e-12, nan_ok=True) if isinstance(other, float) else other)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return deterministic_run(tmp_path_factory.mktemp("seeds") / "alone", dict.fromkeys(STRENGTHS, (0,)))


@pytest.mark.parametrize(
    "seeds_of",
    [
        dict.fromkeys(STRENGTHS, range(10)),
        {"random": (0, 1), "weak": (0,), "fair": (5, 6, 7), "good": (9,)},
    ],
    ids=["ten seeds each", "as many seeds as one likes"],
)
def test_more_seeds_of_deterministic_explainers_change_nothing(alone, tmp_path, monkeypatch, seeds_of):
    monkeypatch.setattr(statistics, "RESAMPLES", 499)
    more = deterministic_run(tmp_path / "more", seeds_of)
    before, after = board_of(alone), board_of(more)
    assert after.seeds == max(len(some) for some in seeds_of.values())
    assert_alike(without_seeds(after), without_seeds(before))
    for key, values in before.values.items():
        np.testing.assert_array_equal(after.values[key], values)
    for number in diff(alone, more).numbers:
        assert (number.before.value, number.before.low, number.before.high, number.before.count) == pytest.approx(
            (number.after.value, number.after.low, number.after.high, number.after.count), rel=1e-9
        )
    # The one is not just as undecided as the other: letters and tests tell explainers apart.
    assert set(before.groups["sufficiency"].values()) != {"a"}
    assert set(before.beats_random.values()) == {True, False}


def test_a_tie_stays_a_tie_with_ten_seeds(tmp_path):
    """12 examples, p = .09: ten seeds made that 120 examples and 'significantly better'."""
    gains = np.array([3, 2, 2.5, 1, 4, -1.5, 3.5, 5, -4.5, -0.5, 0.7, 1.2]) / 100
    store = run(tmp_path / "run")
    for seed in range(10):
        store_scores(store, "random", np.zeros(12), seed, "comprehensiveness")
        store_scores(store, "lime", gains, seed, "comprehensiveness")
    board = board_of(store)
    assert board.groups["comprehensiveness"] == {"lime": "a", "random": "a"}
    assert board.beats_random == {("lime", "comprehensiveness"): False}
    assert statistics.paired_test(np.tile(gains, 10), np.zeros(120))[1] < 0.001
    summary = board.summaries["lime", "comprehensiveness"]
    assert (summary.count, summary.seeds) == (12, 10)
    assert (summary.low, summary.high) == statistics.bca_interval(gains)


def test_runs_of_different_seeds_in_one_folder_are_paired_by_example(tmp_path):
    store = run(tmp_path / "run")
    random = np.array([[0.2, 0.4, 0.1, 0.3], [0.4, 0.0, 0.3, 0.1]])
    for seed, values in enumerate(random):
        store_scores(store, "random", values, seed, ids=["a", "b", "c", "d"])
    store_scores(store, "lime", [0.9, 0.25, nan], 7, ids=["d", "a", "b"], first=3)  # others, in another order
    board = board_of(store)
    places = ["a", "b", "c", "d"]
    assert dict(zip(places, board.values["random", "sufficiency"], strict=True)) == pytest.approx(
        dict(zip(places, [0.3, 0.2, 0.2, 0.2], strict=True))
    )
    np.testing.assert_array_equal(board.values["lime", "sufficiency"], [0.25, nan, nan, 0.9])
    # Lower is better. d: 0.9 against 0.3 and 0.1, both lost; a: 0.25 against 0.2 and 0.4, one of two won.
    (found,) = board.meta.diagnosticities
    assert (found.won, found.tied, found.lost, found.undefined) == (0.5, 0, 1.5, 2)
    assert found.value == 0.25
    assert "in 25% of 2 pairs" in board.meta.sentences()[0]


def test_an_example_counts_once_where_one_seed_measured_it_twice(tmp_path):
    store = run(tmp_path / "run")
    store_scores(store, "random", [0.1, 0.2], 0, first=2)
    store_scores(store, "random", [0.1, 0.2, 0.6], 0)
    board = board_of(store)
    summary = board.summaries["random", "sufficiency"]
    assert (summary.value, summary.count, summary.seeds) == (pytest.approx(0.3), 3, 1)


def test_how_far_seeds_differ_is_said_apart(tmp_path):
    values = np.random.default_rng(1).normal(size=30)
    store = run(tmp_path / "run")
    for seed, shift in enumerate((0.0, 0.1, 0.2)):
        store_scores(store, "random", values + shift, seed)
    board = board_of(store)
    summary = board.summaries["random", "sufficiency"]
    assert (summary.value, summary.spread) == (pytest.approx(values.mean() + 0.1), pytest.approx(0.1))
    assert (summary.low, summary.high) == pytest.approx(statistics.bca_interval(values + 0.1))
    said = "standard deviation of at most 0.1 (random × sufficiency)"
    assert any(said in line for line in board.answer())
    assert as_dict(board)["rows"][0]["sufficiency"]["seed_spread"] == pytest.approx(0.1)
    assert "0.100 (3)" in board._repr_html_()


def test_why_examples_are_undefined_is_counted_by_example(tmp_path):
    store = run(tmp_path / "run")
    store_scores(store, "random", [Score(nan, {}, "no units"), Score(nan, {}, "S₀ = 1"), 0.5], 0)
    store_scores(store, "random", [Score(nan, {}, "no units"), 0.3, 0.7], 1)
    summary = board_of(store).summaries["random", "sufficiency"]
    assert summary.undefined == {"no units": 1, "S₀ = 1 (in some seeds)": 1}
    assert (summary.value, summary.count) == (pytest.approx((0.3 + 0.6) / 2), 2)


# --- metrics that sum themselves up


def test_racu_is_the_mean_of_the_seeds_own():
    metric = catalog.build("metrics", "recursive_erasure")
    generator = np.random.default_rng(3)
    by_seed = [[curve_score(generator) for _ in range(30)] for _ in range(4)]
    each = [metric.summarize(scores) for scores in by_seed]
    summary = metric.summarize(*by_seed)
    assert summary.value == pytest.approx(np.mean([one.value for one in each]))
    assert summary.spread == pytest.approx(np.std([one.value for one in each], ddof=1))
    assert summary.extra["acu"] == pytest.approx(np.mean([one.extra["acu"] for one in each]))
    np.testing.assert_allclose(summary.extra["explained"], np.mean([one.extra["explained"] for one in each], axis=0))
    assert (summary.count, summary.seeds) == (30, 4)


def test_the_interval_of_racu_draws_examples_with_all_their_seeds():
    metric = catalog.build("metrics", "recursive_erasure")
    generator = np.random.default_rng(4)
    scores = [curve_score(generator) for _ in range(30)]
    one, five = metric.summarize(scores), metric.summarize(*[scores] * 5)
    assert (five.value, five.low, five.high) == pytest.approx((one.value, one.low, one.high))
    assert five.extra["acu_interval"] == pytest.approx(one.extra["acu_interval"])
    pooled = metric.summarize(scores * 5)
    assert pooled.high - pooled.low < 0.6 * (one.high - one.low)  # what a pooled bag of seeds would claim


def test_pooled_counts_are_averaged_over_seeds():
    metric = catalog.build("metrics", "rationale_agreement")

    def score(hit, extra, missed):
        record = {"token_counts": [hit, extra, missed], "span_counts": [1, 1, 1], "auprc": hit / 10}
        return Score(2 * hit / (2 * hit + extra + missed), record)

    # Micro F1 of the seeds: 2/(2+1+1) = 0.5 and 16/(16+0+2) = 8/9; of all counts in one bag: 18/22.
    summary = metric.summarize([score(1, 1, 1)], [score(8, 0, 2)])
    assert summary.extra["micro_f1"] == pytest.approx((0.5 + 8 / 9) / 2)
    assert summary.extra["auprc"] == pytest.approx(0.45)


# --- diagnosticity


def test_diagnosticity_takes_one_random_explanation_at_a_time():
    """The mean of many random explanations is beaten more often than one of them: seeds must not make it so."""
    generator = np.random.default_rng(0)
    real, random = 1.0 + generator.normal(size=400), generator.normal(size=(30, 400))
    one = np.mean([formulas.diagnosticity(real, chance, True) for chance in random])
    assert diagnosticity("m", {"a": real}, random, True).value == pytest.approx(one)
    assert formulas.diagnosticity(real, random.mean(0), True) > one + 0.05
