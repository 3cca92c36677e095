"""What is not independent counts once: in every number, interval and test, and every front end says so."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.report.nulls import NULLS, board_of, keyed, null_board

import troth
from troth import seeds, statistics
from troth.core.types import Example, Score
from troth.metrics import catalog
from troth.metrics._diagnosticity import diagnosticity
from troth.report import board_sheet, run_page
from troth.report.comparing import Analysis
from troth.store.store import Store

FILMS = [
    "A tender, beautifully acted little film that stays with you for days.",
    "The plot makes no sense, and the jokes were old when my father was young.",
    "Three hours that felt like three minutes; I would watch it again tonight.",
    "Loud, long and dull: even the popcorn had more character than the villain.",
    "Nobody expects much of a sequel, but this one surprised the whole family.",
]


# --- the attacks: each said "Use mine" or "Use leave_one_out" before clusters were counted


@pytest.fixture(scope="module")
def model():
    return troth.load_model("embedded")


def by_text(model, example, target):
    """Scores that know nothing of the model: random, with the text (without blanks at its end) as the seed."""
    words = example.text.split()
    return np.random.default_rng([SEED, *example.text.strip().encode()]).normal(size=len(words)).tolist()


SEED = 4  # one that looked better than random with 60 examples (p = 0.0006)
ATTACKS = {
    "5 texts × 12 ids": [text for text in FILMS for _ in range(12)],
    "blanks at the end": [text + " " * count for text in FILMS for count in range(12)],
    "one text × 30": FILMS[:1] * 30,
}


@pytest.mark.parametrize("name", ATTACKS)
def test_copies_do_not_make_a_verdict(name, model, tmp_path):
    texts = ATTACKS[name]
    methods = {"loo": "leave_one_out"} if name == "one text × 30" else {"mine": by_text}
    result = troth.bench(model, texts, methods, ["comprehensiveness"], tmp_path, units="word", progress=False)
    board, clusters = result.leaderboard, len(set(map(str.strip, texts)))
    assert (board.examples, board.clusters) == (len(texts), clusters)
    assert (board.verdict.kind, board.verdict.best) == ("too few", ())
    assert board.verdict.sentences[0].startswith(f"Too few clusters: {clusters} cannot show any difference; ")


def test_false_verdicts_are_rare_in_a_few_benches(tmp_path, monkeypatch):
    """200 benches of each kind are in the full suite."""
    monkeypatch.setattr(statistics, "RESAMPLES", 19)
    for name in ("12 texts × 20, disguised", "12 texts × 20, one word changed", "sentences of 12 documents"):
        boards = [null_board(name, seed, tmp_path / name) for seed in range(6)]
        assert sum(bool(board.verdict.best) for board in boards) == 0, name  # without clusters: 16 to 20 of 40


@pytest.mark.full
@pytest.mark.parametrize("name", NULLS)
def test_false_verdicts_are_rare(name, tmp_path, monkeypatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 19)  # the verdict needs no bootstrap
    wrong = sum(bool(null_board(name, seed, tmp_path).verdict.best) for seed in range(200))
    print(f"\n{name}: an explainer is named in {wrong} of 200 benches in which none is better than random")
    assert wrong <= 10


# --- the numbers


def test_a_cluster_is_the_mean_of_its_examples(tmp_path):
    generator = np.random.default_rng(0)
    texts = [f"word{number} alone" for number in range(12)]
    examples = [Example(str(place), text, group=f"g{place // 3}") for place, text in enumerate(texts)]
    scores = keyed(generator, list(range(12)))
    board = board_of(tmp_path / "grouped", examples, scores)
    means = np.array(scores["mine"]["sufficiency"]).reshape(4, 3).mean(1)
    np.testing.assert_allclose(board.values["mine", "sufficiency"], means)
    summary = board.summaries["mine", "sufficiency"]
    assert (summary.value, summary.count) == (pytest.approx(means.mean()), 4)
    assert (summary.low, summary.high) == statistics.bca_interval(seeds.mean_over_clusters(means, None))
    assert board.title == "m on 12 examples (4 clusters) of d"
    alone = board_of(tmp_path / "alone", [replace(example, group=None) for example in examples], scores)
    np.testing.assert_array_equal(alone.values["mine", "sufficiency"], scores["mine"]["sufficiency"])
    assert (alone.clusters, alone.title) == (None, "m on 12 examples of d")


def test_doubling_every_example_changes_no_number(tmp_path):
    """Of the board: values, intervals, letters, diagnosticity and verdict."""
    generator = np.random.default_rng(1)
    examples = [Example(str(place), f"text number{place} here") for place in range(15)]
    again = [Example(f"again {example.id}", f" {example.text}!") for example in examples]
    scores = keyed(generator, list(range(15)), within=0.1)
    gains = {"comprehensiveness": 0.8, "sufficiency": -0.8}
    scores["mine"] = {metric: some + gains[metric] for metric, some in scores["mine"].items()}
    once = board_of(tmp_path / "once", examples, scores)
    doubled = {name: {metric: [*some, *some] for metric, some in each.items()} for name, each in scores.items()}
    twice = board_of(tmp_path / "twice", [*examples, *again], doubled)
    assert (twice.examples, twice.clusters) == (30, 15)
    assert once.verdict.kind == "winner"
    assert str(twice.summaries) == str(once.summaries)  # the spread of one seed is NaN
    assert (twice.groups, twice.beats_random) == (once.groups, once.beats_random)
    assert twice.verdict.best == once.verdict.best
    assert twice.verdict.sentences == once.verdict.sentences
    assert twice.meta.sentences() == once.meta.sentences()


def test_pooled_metrics_and_diagnosticity_count_clusters():
    generator = np.random.default_rng(2)
    metric = catalog.build("metrics", "recursive_erasure(step=0.25)")

    def score(flip):
        curves = {"explained": [1] * flip + [0] * (5 - flip), "random": [1, 1, 1, 1, 0]}
        return Score(0.1, {"ratios": [0, 0.25, 0.5, 0.75, 1], "label": 1, **curves})

    scores = [score(int(flip)) for flip in generator.integers(1, 5, size=12)]
    once, tenfold = metric.summarize(scores), metric.summarize(scores * 10)
    together = metric.summarize(scores * 10, clusters=np.tile(np.arange(12), 10))
    assert (together.low, together.high, together.count) == (once.low, once.high, 12)
    assert tenfold.high - tenfold.low < 0.5 * (once.high - once.low)  # as if there were ten times as many
    real, random = generator.normal(size=(2, 12))
    alone = diagnosticity("m", {"a": real}, random, True)
    counted = diagnosticity("m", {"a": np.tile(real, 10)}, np.tile(random, 10), True, np.tile(np.arange(12), 10))
    assert counted == alone


@pytest.mark.parametrize(
    ("difference", "dtype", "better"),
    [(7e-6, "float32", False), (2e-5, "float32", True), (7e-6, "bfloat16", False), (0.01, "bfloat16", False),
     (0.02, "bfloat16", True), (0.001, "float16", False), (0.003, "float16", True), (7e-6, "float64", False)],
)  # fmt: skip
def test_differences_below_the_arithmetic_are_none(difference, dtype, better, tmp_path):
    """ "+7e-06, p = 1.1e-08" was the rounding of float32."""
    generator = np.random.default_rng(0)
    low = generator.uniform(0.2, 0.4, size=30)
    high = low + difference * generator.uniform(1, 1.01, size=30)
    analysis = Analysis.of({"m": {"a": high, "b": low}}, {"m": True}, (), statistics.resolution(dtype))
    (pair,) = analysis.comparisons.values()
    assert (pair.better == "a", pair.p < 0.05) == (better, better)
    large = Analysis.of(
        {"m": {"a": 100 * low + difference, "b": 100 * low}}, {"m": True}, (), statistics.resolution(dtype)
    )
    assert large.comparisons["m", "a", "b"].p == 1  # of numbers of 20 to 40, as much is rounding


def test_the_number_format_is_that_of_the_run(tmp_path):
    examples = [Example(str(place), f"text number{place} here") for place in range(30)]
    base = np.linspace(0.2, 0.4, 30)
    scores = {"random": {"comprehensiveness": base}, "mine": {"comprehensiveness": base + 0.01}}
    assert board_of(tmp_path / "float32", examples, scores).verdict.best == ("mine",)
    store = Store(tmp_path / "bfloat16")
    store.note(models={"m": {"dtype": "bfloat16"}})
    assert board_of(tmp_path / "bfloat16", examples, scores).verdict.best == ()


# --- what is said


def test_every_front_end_says_the_same(tmp_path):
    generator = np.random.default_rng(0)
    examples = [Example(str(place), FILMS[place % 5] + " " * (place % 7)) for place in range(40)]
    board = board_of(tmp_path / "run", examples, keyed(generator, [place % 5 for place in range(40)]))
    verdict = "Too few clusters: 5 cannot show any difference; about 5,800 would."
    what = "The 40 examples are 5 clusters: equal or nearly equal texts count as one, by the mean of their scores"
    assert board.answer()[0] == verdict
    assert board.answer()[1].startswith(what)
    assert verdict in repr(board)
    assert "40 examples (5 clusters)" in repr(board)
    plain = json.loads(json.dumps(board_sheet.as_dict(board)))
    assert (plain["examples"], plain["clusters"], plain["answer"]) == (40, 5, board.answer())
    page = run_page.report_text(Store(tmp_path / "run"))
    assert verdict in page
    assert "40 examples (5 clusters)" in page
    assert "intervals over clusters" in board.answer()[-1]
    of_one = [replace(example, group="a") for example in examples]
    grouped = board_of(tmp_path / "grouped", of_one, keyed(generator, [place % 5 for place in range(40)]))
    assert grouped.answer()[1].startswith("The 40 examples are 1 cluster: examples of one group, and equal or nearly")


def test_a_run_without_its_data_or_groups_is_still_read(tmp_path):
    generator = np.random.default_rng(0)
    examples = [Example(str(place), FILMS[place % 5]) for place in range(20)]
    board = board_of(tmp_path, examples, keyed(generator, list(range(20))))
    assert board.clusters == 5
    data = next(cell for cell in Store(tmp_path).cells() if cell.kind == "data")
    assert "group_name" not in Store(tmp_path).table(data.name).column_names  # as earlier runs
    (tmp_path / "cells" / f"{data.name}.parquet").unlink()
    (old,) = troth.report.board.leaderboards(Store(tmp_path))
    assert (old.clusters, len(old.values["mine", "sufficiency"])) == (None, 20)
