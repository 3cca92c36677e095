"""What the model says without an explanation's top units: by hand on a lookup model, and against a slow twin."""

import itertools
import math

import numpy as np
import pytest

import fakes
import troth
from troth.models.black_box import BlackBox
from troth.training.record import usual_masking
from troth.verbs.comparison import compare, sentence
from troth.verbs.proof import count_of, prove

WORDS = "one two three four five"
# Probability of class 1 without each word alone: two of them matter, one of these most.
WITHOUT = {"one": 0.9, "two": 0.3, "three": 0.8, "four": 0.6, "five": 0.9}


def logits(p):
    return [0.0, math.log(p / (1 - p))]


def lookup():
    """Five words, so a fifth is one word, and there are five choices of one."""
    table = {WORDS: logits(0.9)}
    for word, p in WITHOUT.items():
        table[WORDS.replace(word, "[M]")] = logits(p)
    return fakes.Lookup(table)


def counting(keys, words):
    """Class 1 has 0.1 more for every key word that is left; erased words are underscores."""

    def predict(texts):
        left = [sum(key in text.split() for key in keys) for text in texts]
        return [[0.9 - 0.1 * n, 0.1 + 0.1 * n] for n in left]

    return BlackBox(predict, labels=["no", "yes"], name="counting"), " ".join(words)


def scored(model, text, scores, **options):
    return troth.Attribution.from_scores(model, text, scores, **options)


def test_by_hand():
    model = lookup()
    (attribution,) = prove(model, troth.explain(model, WORDS, "leave_one_out"))
    proof = attribution.proof
    assert (proof.ratio, proof.count, proof.masking, proof.choices, proof.exact) == (0.2, 1, "mask_token", 5, True)
    assert proof.probability == pytest.approx(0.9, abs=1e-6)
    assert proof.without_top == pytest.approx(0.3, abs=1e-6)  # leave-one-out puts "two" first
    assert proof.without_random == pytest.approx(np.mean([0.9, 0.3, 0.8, 0.6, 0.9]), abs=1e-6)
    low, high = np.percentile([0.9, 0.3, 0.8, 0.6, 0.9], [2.5, 97.5])
    assert (proof.random_low, proof.random_high) == pytest.approx((low, high), abs=1e-6)
    assert proof.chance == 1 / 5  # only the choice of "two" itself does as well
    assert (proof.runner_up, proof.predicted_without_top) == ("class 0", "class 0")
    assert (proof.runner_up_probability, proof.runner_up_without_top) == pytest.approx((0.1, 0.7), abs=1e-6)


def test_a_tie_counts_as_doing_as_well():
    model = lookup()
    (attribution,) = prove(model, [scored(model, WORDS, [5, 1, 2, 3, 4])])
    assert attribution.proof.without_top == pytest.approx(0.9, abs=1e-6)
    assert attribution.proof.chance == 1.0  # every choice lowers it as much or more


def test_random_choices_against_a_slow_twin():
    words = [f"w{number}" for number in range(20)]
    model, text = counting(words[:6], words)
    (attribution,) = prove(model, [scored(model, text, np.arange(20, 0, -1))], choices=40)
    keys = set(range(6))
    order = attribution.question.draws("proof").uniforms(40, 20).argsort(dim=1, stable=True)[:, :4].tolist()
    expected = [0.1 + 0.1 * len(keys - set(chosen)) for chosen in order]
    proof = attribution.proof
    assert proof.random == pytest.approx(expected, abs=1e-6)
    assert (proof.choices, proof.exact, proof.count) == (40, False, 4)
    assert proof.without_top == pytest.approx(0.3, abs=1e-6)
    assert proof.chance == (1 + sum(p <= 0.3 + 1e-6 for p in expected)) / 41
    assert len({tuple(sorted(chosen)) for chosen in order}) > 30
    again = prove(model, [troth.Attribution.from_dict({**attribution.to_dict(), "seed": 1}, model)], choices=40)
    assert again[0].proof.random != proof.random  # another seed, other choices


def test_the_same_alone_and_in_company():
    model = fakes.encoder("bert")
    texts = ["a good film with a great cast and a bad ending", "not a bad book , but the plot was dull and slow"]
    by_method = prove(model, troth.explain(model, texts, ["leave_one_out", "gradient"]))
    assert list(by_method) == ["leave_one_out", "gradient"]
    for attributions in by_method.values():
        for attribution in attributions:
            (alone,) = prove(model, [attribution])
            assert alone.proof.random == pytest.approx(attribution.proof.random, abs=1e-6)
            assert alone.proof.without_top == pytest.approx(attribution.proof.without_top, abs=1e-6)
    first, second = (several[0].proof for several in by_method.values())
    assert first.random == second.random  # of one text, asked once


def test_random_rows_are_asked_once_for_all_methods():
    asked = []
    words = [f"w{number}" for number in range(20)]
    model, text = counting(words[:6], words)
    predict = model.predict
    model.predict = lambda texts: asked.extend(texts) or predict(texts)
    several = [scored(model, text, np.roll(np.arange(20.0), shift)) for shift in (0, 5, 10)]
    asked.clear()
    prove(model, several, choices=50)
    assert len(asked) <= 1 + 3 + 50


@pytest.mark.parametrize(("n_units", "count"), [(1, 1), (2, 1), (7, 1), (8, 2), (12, 2), (13, 3), (100, 20)])
def test_how_many_are_erased(n_units, count):
    assert count_of(0.2, n_units) == count == max(1, round(0.2 * n_units))


def test_the_masking_is_what_the_model_was_trained_for():
    assert usual_masking(troth.load_model("embedded")) == "mask_token"
    assert usual_masking(fakes.encoder("bert")) == "mask_token"
    tokenizer = fakes.wordpiece()
    tokenizer.mask_token = None
    maskless = troth.load_model(fakes.hf_model(), tokenizer)
    assert usual_masking(maskless) == "delete"
    (attribution,) = prove(maskless, troth.explain(maskless, "a good film", "gradient"))
    assert attribution.proof.masking == "delete"


def test_a_trained_masking_is_read_from_train_json(tmp_path):
    fakes.hf_model().save_pretrained(tmp_path)
    fakes.wordpiece().save_pretrained(tmp_path)
    (tmp_path / "train.json").write_text('{"identity": {"recipe": "masked(masking=\'delete\')"}}')
    assert usual_masking(troth.load_model(str(tmp_path))) == "delete"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"choices": 19}, "at least 20 random choices, not 19"),
        ({"ratio": 0.0}, "the share of units that a proof erases must be above 0, not 0.0"),
        ({"ratio": 2}, "a ratio must lie in"),
        ({"masking": "soft"}, "soft draws at random"),
    ],
)
def test_bad_options(options, line):
    model = lookup()
    with pytest.raises(troth.TrothError, match=line):
        prove(model, troth.explain(model, WORDS, "leave_one_out"), **options)


def test_another_model_is_refused():
    attributions = troth.explain(fakes.encoder("bert", seed=1), "a good film", "gradient")
    with pytest.raises(troth.TrothError, match="explained on a different model"):
        prove(fakes.encoder("bert"), attributions)


def test_without_units_there_is_no_proof():
    model = fakes.encoder("bert")
    empty, one = prove(model, troth.explain(model, ["", "film"], "gradient"))
    assert empty.proof is None
    assert (one.proof.count, one.proof.chance, one.proof.choices) == (1, 1.0, 1)


# --- which is most faithful


def planted():
    """Thirty words, six of which matter: of random choices of six hardly any has more than three of them."""
    words = [f"w{number}" for number in range(30)]
    return *counting(words[:6], words), np.arange(30.0, 0, -1)


def test_a_method_that_finds_what_matters_is_most_faithful():
    model, text, good = planted()
    attributions = prove(model, [scored(model, text, good), scored(model, text, -good)])
    assert [attribution.proof.most_faithful for attribution in attributions] == [True, False]
    assert sentence(attributions).startswith("Most faithful on this text: imported scores.")


def test_two_that_choose_alike_cannot_be_told_apart():
    model, text, good = planted()
    attributions = prove(model, [scored(model, text, good), scored(model, text, good**2)])
    assert [attribution.proof.most_faithful for attribution in attributions] == [None, None]
    assert sentence(attributions).startswith("Cannot tell ")


def test_a_short_text_cannot_tell():
    model = lookup()
    attributions = prove(model, [scored(model, WORDS, [0, 5, 0, 0, 0]), scored(model, WORDS, [5, 0, 0, 0, 0])])
    assert [attribution.proof.most_faithful for attribution in attributions] == [None, None]
    assert sentence(attributions) == (
        "Cannot tell whether a method beats chance here: the proof erases 1 of 5 words, and there are only 5 ways to "
        "choose them; a test of 2 methods needs at least 40."
    )


def test_of_one_method_it_is_said_whether_it_beats_chance():
    model, text, good = planted()
    (best,), (worst,) = (prove(model, [scored(model, text, scores)]) for scores in (good, -good))
    assert sentence([best]) == "imported scores beats random words on this text (p = 0.0099)."
    assert sentence([worst]) == "imported scores is not shown to beat random words on this text (p = 1.0)."
    assert best.proof.most_faithful is None


@pytest.mark.parametrize("methods", [2, 4])
def test_methods_that_choose_at_random_win_in_at_most_one_text_of_twenty(methods):
    """The top units of each method are a random choice, too; probabilities as skewed as those of a sure model."""
    model, text, good = planted()
    (attribution,) = prove(model, [scored(model, text, good)])
    generator = np.random.default_rng(0)
    claims = 0
    for _ in range(600):
        values = generator.beta(0.4, 0.2, 100 + methods)
        random, tops = values[:100], values[100:]
        proofs = []
        for top in tops:
            chance = (1 + int((random <= top + 1e-6).sum())) / 101
            facts = {**attribution.proof.to_dict(), "without_top": float(top), "chance": chance}
            proofs.append(troth.core.proof.Proof(**facts, random=tuple(random)))
        claims += compare(proofs).best is not None
    assert claims <= 0.05 * 600


def test_the_lead_is_counted_over_pairs():
    model, text, good = planted()
    several = prove(model, [scored(model, text, good), scored(model, text, np.roll(good, -2))], choices=30)
    random = several[0].proof.random
    gap = several[1].proof.without_top - several[0].proof.without_top
    assert gap == pytest.approx(0.2, abs=1e-6)  # four of the six, by the second method
    pairs = list(itertools.combinations(random, 2))
    expected = (1 + sum(abs(a - b) >= gap - 1e-6 for a, b in pairs)) / (1 + len(pairs))
    assert compare([each.proof for each in several]).lead == pytest.approx(max(expected, 1 / 31))
