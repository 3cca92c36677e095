"""A verdict finds what is there, at the number of examples it named, and claims nothing on noise."""

import re

import numpy as np
import pytest

from fakes import planted
from sampled import every
from troth.core.types import Example
from troth.models.black_box import BlackBox
from troth.report.comparing import Analysis
from troth.report.verdict import judge
from troth.report.wording import joined
from troth.sweep.bench import bench

DIRECTIONS = {"comprehensiveness": True, "sufficiency": False, "correlation": True}
WORDS = ["the", "film", "was", "long", "and", "dull", "with", "a", "plot", "that"]


def verdict_on(by_metric, seconds=None, passes=None):
    names = list(next(iter(by_metric.values())))
    seconds = seconds or dict.fromkeys(names, 0.01)
    return judge(Analysis.of(by_metric, DIRECTIONS), names, seconds, passes=passes)


def scores(generator, count, gains):
    """One metric: explainers that share the examples' difficulty, each better than random by its gain."""
    difficulty = generator.normal(scale=0.3, size=count)
    return {"comprehensiveness": {name: difficulty + gain + generator.normal(scale=0.1, size=count)
                                  for name, gain in gains.items()}}  # fmt: skip


# On noise


@pytest.mark.parametrize("kind", every(3, ["normal", "yes or no", "heavy tails"]))
@pytest.mark.parametrize("count", [12, 50])
def test_random_scores_have_no_winner(kind, count):
    generator = np.random.default_rng(len(kind) * count)
    draw = {
        "normal": lambda: generator.normal(size=count),
        "yes or no": lambda: generator.integers(0, 2, size=count).astype(float),
        "heavy tails": lambda: generator.standard_cauchy(size=count),
    }[kind]
    claimed = 0
    for bench_number in range(200):
        names = ["random", "a", "b", "c", "d"][: 2 + bench_number % 4]
        verdict = verdict_on({metric: {name: draw() for name in names} for metric in DIRECTIONS})
        claimed += bool(verdict.best) or any("Use " in sentence for sentence in verdict.sentences)
    assert claimed <= 0.05 * 200


# On a method that is better


def test_the_number_of_examples_that_is_named_is_enough():
    generator = np.random.default_rng(3)
    gains = {"good": 0.08, "fair": 0.05, "random": 0.0}
    # How many examples a large pilot names; a verdict on so many finds the best in about four of five cases.
    pilot = Analysis.of(scores(generator, 4000, gains), DIRECTIONS)
    needed = int(pilot.between("good", "fair")[0].needed)
    verdicts = {
        count: [verdict_on(scores(generator, count, gains)) for _ in range(200)] for count in (needed, needed // 8)
    }
    found = {
        count: np.mean([one.kind == "winner" and one.best == ("good",) for one in some])
        for count, some in verdicts.items()
    }
    assert found[needed] >= 0.8
    assert found[needed // 8] < 0.35
    for verdict in verdicts[needed // 8]:
        if verdict.kind == "tie":
            assert verdict.sentences[0].startswith(("Cannot tell good and fair apart.", "Cannot tell fair and good"))
            assert "examples" in verdict.sentences[3]
            assert "beats" not in " ".join(verdict.sentences)
    assert not any(verdict.best == ("fair",) for verdict in verdicts[needed])


def texts(count):
    """Films of which every third is awful, said anywhere."""
    generator = np.random.default_rng(5)
    examples = []
    for number in range(count):
        words = list(generator.permutation(WORDS))
        if number % 3 == 0:
            words[generator.integers(len(words))] = "awful"
        examples.append(Example(str(number), " ".join(words)))
    return examples


def test_on_a_planted_model_the_better_method_is_found_at_the_number_that_was_named(tmp_path):
    model = BlackBox(planted(), name="rule")
    methods, metrics = ["leave_one_out", "text_rank", "random"], ["comprehensiveness(masking=mask_token)"]

    def board(count):
        return bench(model, texts(count), methods, metrics, tmp_path / f"run{count}").leaderboard

    few = board(12)
    said = few.answer()
    assert few.verdict.kind == "none"
    assert said[0] == "No explainer is shown to beat random."
    assert said[1].startswith("The closest: leave_one_out − random: +")
    assert said[2].startswith("Too few examples: 12 cannot show ")
    assert not any(line.startswith("Use ") for line in said)
    needed = int(re.search(r"about (\d+) would", said[2])[1])
    enough = board(needed)
    assert enough.verdict.best == ("leave_one_out",)
    assert enough.answer()[0].startswith("Use leave_one_out: ")
    assert enough.verdict.useless == ("text_rank",)
    (letters,) = enough.groups.values()
    assert letters == {"leave_one_out": "a", "text_rank": "b", "random": "b"}


# What is said


def planted_scores(**gains):
    noise = np.tile([0.01, -0.01], 20)
    return {"comprehensiveness": {name: gain + noise * place for place, (name, gain) in enumerate(gains.items())}}


def test_a_tie_names_the_cheapest_and_how_far_apart_they_are():
    seconds = {"slow": 0.9, "quick": 0.02, "random": 0.0, "poor": 0.001}
    verdict = verdict_on(planted_scores(slow=0.5, quick=0.5, random=0.1, poor=0.1), seconds)
    assert (verdict.kind, verdict.best, verdict.useless) == ("tie", ("slow", "quick"), ("poor",))
    assert verdict.sentences[:2] == (
        "Cannot tell slow and quick apart.",
        "Use the cheapest of them: quick (20 ms per example).",
    )
    assert verdict.sentences[2].startswith("slow − quick: 0.000 [−0.00")
    assert verdict.sentences[2].endswith("p = 1.0.")
    assert "no number of examples is likely to show one here" in verdict.sentences[3]
    assert verdict.sentences[4] == "Not shown to beat random: poor."


def test_a_winner_is_better_than_random_and_all_the_others():
    verdict = verdict_on(planted_scores(best=0.5, second=0.4, random=0.1))
    assert (verdict.kind, verdict.best) == ("winner", ("best",))
    assert verdict.sentences == (
        "Use best: it beats random and second.",
        "The closest: best − second: +0.100 [0.096, 0.104] in comprehensiveness, p < 0.001.",
    )
    alone = verdict_on(planted_scores(best=0.5, random=0.1))
    assert alone.sentences[0] == "Use best: it beats random."
    assert alone.sentences[1].startswith("best − random: +0.4")


def test_the_cheapest_takes_the_fewest_passes_whatever_the_times_of_one_run():
    passes = {"slow": 850.2, "quick": 27, "random": 1, "poor": 1}
    for seconds in ({"slow": 0.9, "quick": 0.02}, {"slow": 0.01, "quick": 0.02}):
        values = planted_scores(slow=0.5, quick=0.5, random=0.1, poor=0.1)
        verdict = verdict_on(values, {"random": 0.1, "poor": 0.1, **seconds}, passes)
        assert verdict.sentences[1] == "Use the cheapest of them: quick (27 passes, 20 ms per example)."


def test_of_methods_with_as_many_passes_the_better_placed_is_the_cheapest_in_every_run():
    values = planted_scores(slow=0.5, quick=0.5, random=0.1)
    sentences = set()
    for repetition in range(10):
        seconds = {"slow": 0.01 * (1 + repetition % 3), "quick": 0.02, "random": 0.1}
        sentences.add(verdict_on(values, seconds, {"slow": 3, "quick": 3, "random": 1}).sentences[0].partition(" (")[0])
    assert len(sentences) == 1


def test_a_winner_has_a_price_and_a_lead_that_may_hardly_matter():
    passes = {"best": 850, "second": 25, "random": 1}
    verdict = verdict_on(planted_scores(best=0.5, second=0.3, random=0.1), passes=passes)
    assert verdict.sentences[2] == "best takes 850 passes, 10 ms per example."
    verdict = verdict_on(planted_scores(best=0.5, second=0.48, random=0.1), passes=passes)
    assert verdict.kind == "winner"
    assert verdict.sentences[2:] == (
        "second will do: the lead over it is 5 % of the lead over random, for 34 times the passes.",
        "best takes 850 passes, 10 ms per example; second takes 25 passes, 10 ms per example.",
    )
    cheap = verdict_on(planted_scores(best=0.5, second=0.48, random=0.1), passes={**passes, "best": 30})
    assert cheap.sentences[2] == "best takes 30 passes, 10 ms per example."


def test_what_cannot_be_told_from_a_good_method_is_not_called_worse():
    """That one is significantly better than random and another is not says nothing of the two."""
    generator = np.random.default_rng(0)
    noise = generator.normal(scale=0.5, size=40)
    values = {"clear": np.full(40, 0.1), "noisy": 0.1 + noise - noise.mean(), "random": np.arange(40) % 2 * 0.01}
    verdict = verdict_on({"comprehensiveness": values})
    assert (verdict.kind, verdict.best, verdict.useless) == ("tie", ("clear",), ("noisy",))
    assert verdict.sentences[:2] == (
        "Cannot tell clear and noisy apart.",
        "Use clear, the only one shown to beat random.",
    )
    assert verdict.sentences[2].startswith("clear − noisy: ")


def test_nine_examples_are_too_few_whatever_they_say():
    verdict = verdict_on({"comprehensiveness": {"best": np.ones(9) + np.arange(9) / 100, "random": np.zeros(9)}})
    assert verdict.kind == "too few"
    assert verdict.sentences == ("Too few examples: 9 cannot show any difference; about 10 would.",)


def test_metrics_that_disagree_make_no_winner():
    def spread(gain):
        return gain + np.tile([0.01, -0.01], 20) * gain

    by_metric = {
        "comprehensiveness": {"one": spread(0.5), "other": spread(0.4), "random": spread(0.1)},
        "correlation": {"one": spread(0.4), "other": spread(0.5), "random": spread(0.1)},
    }
    verdict = verdict_on(by_metric)
    assert verdict.kind == "tie"
    why = "Metrics disagree: one is better on comprehensiveness, other is better on correlation."
    assert verdict.sentences[2] == why
    by_metric["correlation"] = {"one": spread(0.1), "other": spread(0.05), "random": spread(0.2)}
    unclear = verdict_on(by_metric)
    assert (unclear.kind, unclear.best) == ("open", ())
    assert unclear.sentences == ("Metrics disagree on whether one and other can beat random.",)


def test_lower_can_be_better():
    values = {
        name: -array for name, array in planted_scores(best=0.5, second=0.4, random=0.1)["comprehensiveness"].items()
    }
    verdict = verdict_on({"sufficiency": values})
    assert verdict.best == ("best",)
    assert "best − second: −0.100 [−0.1" in verdict.sentences[1]


@pytest.mark.parametrize(
    ("by_metric", "why"),
    [
        ({"comprehensiveness": {"random": np.zeros(20)}}, "there is no explainer but random"),
        ({"comprehensiveness": {"a": np.zeros(20), "b": np.ones(20)}}, "random, to compare with, was not measured"),
    ],
)
def test_without_anything_to_compare_there_is_no_verdict(by_metric, why):
    assert verdict_on(by_metric).sentences == (f"No verdict: {why}.",)


def test_lists_as_people_write_them():
    assert [joined(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
