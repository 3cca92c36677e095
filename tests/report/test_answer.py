"""The answer of a board: what decides, what is only shown, and that no two of its sentences contradict each other."""

from dataclasses import replace

import numpy as np
import pytest
from tests.test_seeds import board_of, run, store_scores

from troth.core import catalog
from troth.core.types import Score
from troth.metrics import Summary


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("aopc_comprehensiveness", ""),
        ("recursive_erasure", ""),  # by the areas of the examples, not by RACU
        ("rationale_agreement", "plausibility, not faithfulness"),
        ("sensitivity", "stability, not faithfulness"),
        ("sparsity", "neither high nor low is better"),
        ("normalized_sufficiency", "relative to what erasing the whole text changes, so without bounds"),
        ("normalized_sufficiency(clip=true)", ""),
        ("normalized_comprehensiveness(variant=released)", ""),
        ("soft_comprehensiveness", "relative to what erasing the whole text changes, so without bounds"),
        ("soft_sufficiency(clip=true)", ""),
        ("soft_sufficiency(normalized=false)", ""),
    ],
)
def test_a_metric_says_whether_it_decides(spec, why):
    assert catalog.build("metrics", spec).why_not_deciding == why


def measured(folder, **by_metric):
    """A board of scores: metric -> explainer -> numbers."""
    store = run(folder)
    for metric, by_explainer in by_metric.items():
        for explainer, numbers in by_explainer.items():
            records = {"token_counts": [1, 1, 1], "span_counts": [1, 1, 1], "auprc": 0.5}
            store_scores(store, explainer, [Score(float(number), records) for number in numbers], metric=metric)
    return board_of(store)


def noisy(seed, **means):
    generator = np.random.default_rng(seed)
    return {name: generator.normal(mean, 0.05, size=40) for name, mean in means.items()}


def test_agreement_with_humans_is_shown_apart_and_decides_nothing(tmp_path):
    faithful = noisy(1, random=0.1, liked=0.2, good=0.4)
    plausible = noisy(2, random=0.1, liked=0.9, good=0.1)
    alone = measured(tmp_path / "alone", comprehensiveness=faithful)
    both = measured(tmp_path / "both", rationale_agreement=plausible, comprehensiveness=faithful)
    assert both.metrics == ("comprehensiveness", "rationale_agreement")  # last, wherever it was given
    assert both.deciding == ("comprehensiveness",)
    assert both.explainers == alone.explainers == ("good", "liked", "random")
    assert both.verdict == alone.verdict
    assert both.answer()[0].startswith("Use good: it beats random and liked.")
    assert both.answer()[1].startswith("The closest: good − liked: +0.")
    (said,) = [line for line in both.answer() if "plausibility" in line]
    assert said.startswith(
        "rationale_agreement is plausibility (agreement with humans), not faithfulness, and does not count in the "
        "ranking: liked 0.9"
    )


def test_ratios_without_bounds_are_shown_and_decide_nothing(tmp_path):
    faithful = noisy(1, random=0.1, good=0.4)
    ratios = noisy(2, random=90.0, good=1.0)
    board = measured(tmp_path / "run", normalized_sufficiency=ratios, comprehensiveness=faithful)
    assert (board.deciding, board.explainers) == (("comprehensiveness",), ("good", "random"))
    wide = {**board.summaries, ("good", "normalized_sufficiency"): Summary(20.0, 1.7, 120.0, 40)}
    (said,) = [line for line in replace(board, summaries=wide).answer() if "near 0" in line]
    assert said == (
        "normalized_sufficiency is divided by what erasing the whole text changes, which is near 0 here: good has "
        "[1.700, 120.000]. Do not compare its values."
    )
    tame = {key: Summary(0.5, 0.4, 0.6, 40) for key in board.summaries}
    assert not any("near 0" in line for line in replace(board, summaries=tame).answer())
    nothing = measured(tmp_path / "ratios", normalized_sufficiency=ratios)
    assert nothing.answer()[0].startswith("No verdict: no metric here decides")


def test_a_pooled_metric_is_ranked_by_its_examples(tmp_path):
    """RACU may have any size; what is compared are the areas of the examples."""
    board = measured(tmp_path / "run", comprehensiveness=noisy(1, random=0.1, good=0.4, fair=0.3))
    racu = {("good", "m"): 1.0, ("fair", "m"): 9.0, ("random", "m"): 0.0}
    areas = {("good", "m"): 0.3, ("fair", "m"): 0.2, ("random", "m"): 0.0}
    pooled = replace(
        board, metrics=("m",), directions={"m": True}, compared=areas,
        summaries={key: Summary(value, value, value, 40) for key, value in racu.items()},
    )  # fmt: skip
    from troth.report.board import mean_rank

    assert [mean_rank(pooled, name) for name in ("good", "fair", "random")] == [1, 2, 3]
    assert pooled.sorted_by("m") == ("fair", "good", "random")


@pytest.mark.parametrize("seed", range(12))
def test_no_two_sentences_contradict_each_other(tmp_path, seed):
    generator = np.random.default_rng(seed)
    names = ["random", "a", "b", "c"]
    means = {name: float(mean) for name, mean in zip(names, generator.uniform(0, 0.12, size=4), strict=True)}
    board = measured(
        tmp_path / "run",
        comprehensiveness=noisy(seed, **means),
        sufficiency=noisy(seed + 99, **dict.fromkeys(names, 0.1)),
    )
    verdict, said = board.verdict, board.answer()
    beaters = {name for (name, metric), better in board.beats_random.items() if better}
    assert set(verdict.best) <= beaters
    assert not set(verdict.best) & set(verdict.useless)
    assert "random" not in verdict.best
    assert (
        sum(line.startswith(("Use ", "Cannot tell", "No explainer is", "Too few", "No verdict")) for line in said[:1])
        == 1
    )
    if verdict.kind == "winner":
        for metric in board.deciding:
            own = set(board.groups[metric][verdict.best[0]])
            assert not board.beats_random.get((verdict.best[0], metric)) or not own & set(
                board.groups[metric]["random"]
            )
    if verdict.kind == "none":
        assert not any(line.startswith(("Use ", "Cannot tell")) for line in said)
