"""Words that act together: by hand, by the printed formula, by shapiq, and by what they foretell."""

import json
from itertools import combinations
from math import factorial

import numpy as np
import pytest
import torch
from tests.explainers.referees import questions, value
from typer.testing import CliRunner

import fakes
import kinds
import labels
import troth
from troth.cli import app
from troth.core.errors import TrothError
from troth.engine.prober import Prober
from troth.explainers import _quadratic
from troth.explainers._interactions import ShapleyInteractions, exact
from troth.explainers._players import players
from troth.explainers.exact_shapley import all_coalitions

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def slow(values, count):
    """I(i, j) = Σ_T |T|! (n − |T| − 2)! / (n − 1)! · (v(T ∪ ij) − v(T ∪ i) − v(T ∪ j) + v(T)), as it is printed."""
    found = {}
    for i, j in combinations(range(count), 2):
        others = [other for other in range(count) if other not in (i, j)]
        found[i, j] = sum(
            factorial(size) * factorial(count - size - 2) / factorial(count - 1)
            * (values({*t, i, j}) - values({*t, i}) - values({*t, j}) + values({*t}))
            for size in range(count - 1)
            for t in combinations(others, size)
        )  # fmt: skip
    return found


def as_dict(result):
    return {(first, second): value for first, second, value in result.pairs}


def game(function):
    """A black box whose class 1 has a probability that is a function of the set of words that are there."""

    def predict(texts):
        p = [function(set(text.split())) for text in texts]
        return [[1 - each, each] for each in p]

    return troth.load_model(predict, labels=["no", "yes"])


def of_game(function, text, **options):
    asked = {"target": 1, "masking": "delete", "of": "probability", "progress": False} | options
    return troth.interactions(game(function), text, **asked)[0]


def test_by_hand():
    table = {"not bad": [0, 5], "[M] bad": [0, -2], "not [M]": [0, -1], "[M] [M]": [0, 0]}
    (found,) = troth.interactions(fakes.Lookup(table), "not bad", target=1, against=0)
    # Together 5; apart −1 and −2: 5 − (−1) − (−2) + 0 = 8.
    assert found.pairs == ((0, 1, pytest.approx(8, abs=1e-5)),)
    assert found.scores == pytest.approx([3, 2], abs=1e-5)  # ½ (−1) + ½ (5 + 2) and ½ (−2) + ½ (5 + 1)
    assert found.main_effects == pytest.approx([-1, -2], abs=1e-5)
    assert found.errors == (0.0,)
    assert found.exact
    assert found.complete
    assert found.maskings == 4


@pytest.mark.parametrize("count", [2, 3, 6])
def test_against_the_printed_formula(count):
    masks = all_coalitions(count).numpy().astype(float)
    numbers = np.random.default_rng(count).normal(size=len(masks))
    of_set = {frozenset(np.flatnonzero(row)): number for row, number in zip(masks, numbers, strict=True)}
    found = exact(masks, numbers)
    for (i, j), expected in slow(lambda units: of_set[frozenset(units)], count).items():
        assert found.pair[i, j] == found.pair[j, i] == pytest.approx(expected, abs=1e-12)


def test_on_a_random_model():
    model = fakes.encoder()
    (question,) = questions(texts=["a good film , honestly"])
    (found,) = troth.interactions(model, "a good film , honestly", target=question.target)

    def kept(units):
        return value(model, question, [unit for unit in range(5) if unit not in units], "logit")

    assert as_dict(found) == pytest.approx(slow(kept, 5), abs=1e-5)
    assert found.empty + found.main_effects.sum() + sum(v for *_, v in found.pairs) == pytest.approx(
        kept(range(5)), abs=1e-5
    )


@pytest.mark.parametrize("count", [3, 7, 10])
def test_against_shapiq(count):
    shapiq = pytest.importorskip("shapiq", reason="the referee for pairs: pip install shapiq")
    masks = all_coalitions(count).numpy()
    numbers = np.random.default_rng(count).normal(size=len(masks))
    found = exact(masks.astype(float), numbers)
    places = 1 << np.arange(count)

    computer = shapiq.ExactComputer(n_players=count, game=lambda rows: numbers[rows @ places])
    for index in ("SII", "k-SII"):
        theirs = computer(index, order=2)
        for i, j in combinations(range(count), 2):
            assert found.pair[i, j] == pytest.approx(theirs[i, j], abs=1e-6)
        for i in range(count):
            alone = found.single[i] - (found.pair[i].sum() / 2 if index == "k-SII" else 0)
            assert alone == pytest.approx(theirs[(i,)], abs=1e-6)


def third_order(words):
    """Two pairs, three words that only work together, and single words: nothing of it is quadratic."""
    inner = 0.3 * ("one" in words) * ("four" in words) - 0.2 * ("two" in words) * ("nine" in words)
    inner += 0.2 * ("five" in words) * ("six" in words) * ("seven" in words) + 0.05 * len(words)
    return float(0.3 + 0.4 * np.tanh(inner))


def test_estimates_agree_with_exact_values():
    text = " ".join(WORDS)
    true = as_dict(of_game(third_order, text, samples=4096))
    found = of_game(third_order, text, samples=1024)
    assert not found.exact
    assert found.complete
    assert len(found.pairs) == len(true) == 66
    off = np.array([value - true[i, j] for i, j, value in found.pairs])
    assert np.abs(off).max() < 0.01
    assert found.pairs[0][:2] == (0, 3)
    assert found.pairs[1][:2] == (1, 8)
    inside = np.abs(off) <= 1.96 * np.array(found.errors)
    assert inside.mean() >= 0.8
    assert max(found.errors) < 0.01
    assert found.forecast.held_out
    assert found.forecast.maskings == 128


@pytest.mark.full
def test_estimates_are_unbiased_and_their_intervals_hold():
    text = " ".join(WORDS)
    true = as_dict(of_game(third_order, text, samples=4096))
    drawn = [of_game(third_order, text, samples=256, held_out=2, seed=seed) for seed in range(100)]
    values = np.array([[as_dict(found)[pair] for pair in true] for found in drawn])
    mean_error = values.std(0, ddof=1) / len(drawn) ** 0.5
    z = (values.mean(0) - list(true.values())) / mean_error
    assert np.abs(z).max() < 4
    inside = [
        abs(value - true[i, j]) <= 1.96 * error
        for found in drawn
        for (i, j, value), error in zip(found.pairs, found.errors, strict=True)
    ]
    assert 0.90 < np.mean(inside) < 0.96  # 0.92 measured: slightly below 95 % where a text is asked about so little


def test_a_sparse_search_finds_planted_pairs_in_a_long_text():
    words = [f"w{number}" for number in range(60)]

    def planted(there):
        both = 0.3 * ("w3" in there and "w41" in there) - 0.25 * ("w8" in there and "w9" in there)
        return 0.4 + both + 0.002 * len(there)

    found = of_game(planted, " ".join(words))
    assert not found.complete
    assert len(found.pairs) <= 60
    assert found.pairs[0] == (3, 41, pytest.approx(0.3, abs=0.06))
    assert found.pairs[1] == (8, 9, pytest.approx(-0.25, abs=0.06))
    assert found.forecast.with_pairs > 0.95 > 0.8 > found.forecast.best_singles
    assert "Pairs of words are needed" in found.sentence


def test_boosted_trees_are_read_exactly():
    random = np.random.default_rng(0)
    masks = (random.random((200, 9)) < 0.5).astype(float)
    values = np.tanh(masks @ random.normal(size=9) + 2 * masks[:, 1] * masks[:, 4])
    from sklearn.ensemble import GradientBoostingRegressor

    trees = GradientBoostingRegressor(n_estimators=200, learning_rate=0.1, max_depth=2, random_state=0)
    new = (random.random((50, 9)) < 0.5).astype(float)
    assert _quadratic.boosted(masks, values)(new) == pytest.approx(trees.fit(masks, values).predict(new), abs=1e-9)


def test_ridge_finds_a_quadratic_function():
    random = np.random.default_rng(0)
    masks = (random.random((300, 9)) < 0.5).astype(float)
    truth = _quadratic.Quadratic(0.5, random.normal(size=9), np.zeros((9, 9)))
    truth.pair[1, 4] = truth.pair[4, 1] = 2.0
    found = _quadratic.ridge(masks, truth(masks))
    assert found.constant == pytest.approx(0.5, abs=1e-3)
    assert found.single == pytest.approx(truth.single, abs=1e-3)
    assert found.pair == pytest.approx(truth.pair, abs=1e-3)


def test_words_that_only_add_up_need_no_pairs():
    found = of_game(lambda words: 0.1 + 0.05 * len(words) + 0.1 * ("two" in words), "one two three four five")
    assert np.abs([value for *_, value in found.pairs]).max() < 1e-6
    assert found.forecast.best_singles == pytest.approx(1, abs=1e-6)
    assert "add little" in found.sentence


def test_what_needs_two_words_is_not_foretold_by_single_ones():
    def xor(words):
        return 0.2 + 0.6 * (("one" in words) != ("two" in words))

    found = of_game(xor, "one two three")
    assert found.pairs[0] == (0, 1, pytest.approx(-1.2))
    assert found.forecast.best_singles < 0.2
    assert found.forecast.with_pairs == pytest.approx(1)
    constant = of_game(lambda words: 0.4, "one two three")
    assert "the same whichever words are kept" in constant.sentence
    assert constant.to_dict()["forecast"]["singles"] is None  # JSON has no NaN


def test_a_tolerance_stops_earlier():
    text = " ".join(WORDS)
    loose = of_game(third_order, text, tolerance=0.5, samples=2000)
    tight = of_game(third_order, text, tolerance=0.02, samples=2000)
    assert loose.maskings < tight.maskings <= 2000
    assert 1.96 * max(loose.errors) <= 0.5 * abs(loose.pairs[0][2])
    assert f"{loose.maskings} of 2000 samples" in loose.note


def test_draws_are_keyed_by_text_and_seed():
    texts = [troth.Example(id=str(n), text=" ".join(WORDS[n:] + WORDS[:n])) for n in range(3)]
    options = {"target": 1, "masking": "delete", "of": "probability", "samples": 128, "progress": False}
    model = game(third_order)
    alone = troth.interactions(model, texts[1:2], **options)[0]
    company = troth.interactions(model, texts, **options)[1]
    other = troth.interactions(model, texts[1:2], seed=1, **options)[0]
    assert alone.pairs == company.pairs
    assert alone.errors == company.errors
    assert alone.forecast == company.forecast
    assert alone.pairs != other.pairs


def test_units_that_are_gone_take_no_part():
    model = fakes.encoder()
    question = fakes.partly_erased(model)
    found = Prober(model).ask(ShapleyInteractions(samples=128).ask([question]))[0]
    there = players(question).tolist()
    assert {unit for first, second, _ in found.pairs for unit in (first, second)} == set(there)
    assert not found.scores[question.left.numpy() == 0].any()


@pytest.mark.parametrize("kind", ["bert", "black_box", "prompted_llama", "llama_head"])
def test_kinds_of_models(kind):
    model = kinds.model_of(kind)
    chosen = [example for example in kinds.TEXTS if example.id in ("short", "pair", "one")]
    found = troth.interactions(model, kinds.readable(kind, chosen), segments="both")
    by_id = {each.example.id: each for each in found}
    assert len(by_id["short"].pairs) == 3
    assert np.isfinite([value for *_, value in by_id["short"].pairs]).all()
    if kind != "prompted_llama":  # its prompt has no place for a second text
        assert len(by_id["pair"].units) == 9
        assert len(by_id["pair"].pairs) == 36
    one = by_id["one"]
    assert one.pairs == ()
    assert one.forecast is None
    assert one.sentence == ""


def test_labels_and_continuations():
    (found,) = troth.interactions(labels.planted_labels(), "awful soup , awful cast", target="rude")
    assert found.outputs == "labels"
    assert len(found.pairs) == 10
    # Once it is there, the second "awful" adds little: the two act against each other.
    assert found.pairs[0][:2] == (0, 3)
    assert found.pairs[0][2] < 0
    writer = troth.load_model(
        fakes.causal_model("gpt2"), fakes.causal_tokenizer("gpt2"), continuation=" the film", mask_text=" _"
    )
    (written,) = troth.interactions(writer, "a good film")
    assert len(written.pairs) == 3
    assert "log-probability" in written._repr_html_()


def test_results_show_themselves(tmp_path):
    (found,) = troth.interactions("embedded", "Not a <b>bad</b> film & all.", samples=1024)
    shown = found._repr_html_()
    assert "<svg" in shown
    assert "<b>bad</b>" not in shown
    assert "<path" in shown
    assert "Not &amp; bad" in shown
    assert "currentColor" in shown
    facts = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert facts["index"] == "SII"
    assert facts["pairs"][0]["texts"] == ["Not", "bad"]
    assert facts["pairs"][0]["units"] == [0, found.units.index("bad")]
    assert troth.Attribution.from_dict(facts).scores == pytest.approx(found.scores)


def test_on_the_command_line(tmp_path):
    page = tmp_path / "page.html"
    run = CliRunner().invoke(app, ["explain", "Not a bad film.", "--interactions", "--html", str(page)])
    assert run.exit_code == 0, run.output
    assert "pairs: Not & bad +" in run.output
    assert "describe all 30 ways to erase words" in " ".join(run.output.split())
    assert "<svg" in page.read_text()
    run = CliRunner().invoke(app, ["explain", "Not a bad film.", "--interactions", "-e", "leave_one_out", "--json"])
    one, two = json.loads(run.stdout)
    assert "pairs" not in one
    assert two["pairs"][0]["texts"] == ["Not", "bad"]
    for more in (["--record", str(tmp_path / "kept")], ["--target", "each"]):
        run = CliRunner().invoke(app, ["explain", "Not bad.", "--interactions", *more])
        assert run.exit_code == 2 or isinstance(run.exception, TrothError)


def test_what_cannot_be_is_said():
    with pytest.raises(TrothError, match="20 units need at least 160 maskings, not 100"):
        of_game(third_order, " ".join(f"w{n}" for n in range(20)), samples=100)
    with pytest.raises(TrothError, match="samples must be at least 4"):
        troth.interactions("embedded", "fine", samples=1)
    with pytest.raises(TrothError, match="tolerance must be above 0"):
        troth.interactions("embedded", "fine", tolerance=-1)


def test_globals_stay():
    state = np.random.get_state()[1].copy(), torch.get_rng_state()
    of_game(third_order, " ".join(WORDS), samples=256)
    assert (np.random.get_state()[1] == state[0]).all()
    assert torch.equal(torch.get_rng_state(), state[1])
