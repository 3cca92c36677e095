"""Which passages an answer rests on: by hand, and on a model of which it is known."""

import json
import random

import numpy as np
import pytest
import torch

import fakes
import troth
from retrieval import retriever
from troth.core.errors import TrothError
from troth.verbs.cite import PROMPT

FILMS = ["A good film. It was the good film.", "The bad film was a film.", "the good. The bad. A film was", "a good"]
TOWNS = ["Zor", "Mel", "Quin", "Ost", "Bel", "Lum", "Dra", "Kel"]
COLORS = ["red", "blue", "green", "black", "white", "amber", "violet", "silver"]


def causal(family="gpt2"):
    tokenizer = fakes.causal_tokenizer(family)
    return fakes.causal_model(family, max_position_embeddings=512), tokenizer


def cite(passages, answer, question="what was it", **options):
    network, tokenizer = causal()
    return troth.cite(network, question, passages, answer, tokenizer=tokenizer, max_length=512, **options)


def by_hand(passages, answer, question="what was it"):
    """[tokens] log-probabilities of the answer behind the prompt, by one plain pass."""
    network, tokenizer = causal()
    prompt = PROMPT.format(passages="".join(passages), question=question) + "\nAnswer:"
    before, behind = (tokenizer(text)["input_ids"] for text in (prompt, f" {answer}"))
    logs = network(torch.tensor([[*before, *behind]])).logits[0].log_softmax(-1)
    values = [float(logs[len(before) - 1 + place, token].detach()) for place, token in enumerate(behind)]
    return np.array(values), [tokenizer.decode([token]) for token in behind]


def test_by_hand():
    """Erasing deletes a passage and the blank line after it; a sentence of the answer is the sum of its tokens."""
    answer = "It was good. A bad film."
    found = cite(FILMS, answer, tolerance=0)
    parted = [f"{text}\n\n" for text in FILMS[:-1]] + FILMS[-1:]
    whole, tokens = by_hand(parted, answer)
    split = len("".join(tokens).split(".")[0]) + 1
    first = np.cumsum([len(token) for token in tokens]) <= split

    def parts(values):
        return np.array([values.sum(), values[first].sum(), values[~first].sum()])

    def score(passages):
        return parts(whole) - parts(by_hand(passages, answer)[0])

    rows = [found.whole, *found.parts]
    assert [part.text for part in rows] == [answer, "It was good.", "A bad film."]
    np.testing.assert_allclose([part.log_probability for part in rows], parts(whole), atol=2e-4)
    np.testing.assert_allclose([part.without_any for part in rows], parts(by_hand([], answer)[0]), atol=2e-4)
    for place in range(len(FILMS)):
        expected = score([text for number, text in enumerate(parted) if number != place])
        np.testing.assert_allclose([part.scores[place] for part in rows], expected, atol=5e-4)
    assert found.divided == (0, 1, 2, 3)
    assert [found.sentence(number) for number in range(7)] == [
        "A good film.", "It was the good film.", "The bad film was a film.", "the good.", "The bad.", "A film was",
        "a good",
    ]  # fmt: skip
    without_first = score([parted[0].removeprefix("A good film. "), *parted[1:]])
    without_middle = score([*parted[:2], "the good. A film was\n\n", parted[3]])
    np.testing.assert_allclose([part.sentence_scores[0] for part in rows], without_first, atol=5e-4)
    np.testing.assert_allclose([part.sentence_scores[4] for part in rows], without_middle, atol=5e-4)
    # One sentence alone is its passage.
    np.testing.assert_allclose(found.whole.sentence_scores[2], found.scores[1], atol=5e-4)


def test_the_proof_by_hand():
    answer = "It was good."
    found = cite(FILMS, answer, tolerance=0)
    parted = [f"{text}\n\n" for text in FILMS[:-1]] + FILMS[-1:]
    proof = found.whole.proof
    assert proof.exact
    left = [
        by_hand([text for number, text in enumerate(parted) if number != place], answer)[0].sum() for place in range(4)
    ]
    (top,) = proof.erased
    assert top == int(np.argmin(left))
    others = [value for place, value in enumerate(left) if place != top]
    assert proof.without_cited == pytest.approx(left[top], abs=5e-4)
    assert proof.without_random == pytest.approx(np.mean(others), abs=5e-4)
    assert (proof.random_low, proof.random_high) == pytest.approx((min(others), max(others)), abs=5e-4)


def planted(number):
    """Eight passages, one with a fact and one with its words; the place of the fact, and the fact."""
    choose = random.Random(number)
    towns, colors = choose.sample(TOWNS, 8), choose.sample(COLORS, 8)
    passages = [
        f"People of {town} like {color} things. They often say so." for town, color in zip(towns, colors, strict=True)
    ]
    right, wrong = choose.sample(range(8), 2)
    fact = f"The key of {towns[0]} is {colors[1]}."
    passages[right] += f" {fact} Nobody knows why."
    passages[wrong] += f" {colors[1]}, say some, is a key. {towns[0]} has no key of the kind."
    return passages, right, fact, f"What is the key of {towns[0]}?"


@pytest.mark.parametrize("numbers", [range(3), pytest.param(range(3, 103), marks=pytest.mark.full)], ids=str)
def test_a_planted_fact_comes_first_and_its_words_do_not_win(numbers):
    network, tokenizer = retriever()
    model = troth.load_model(network, tokenizer, continuation="a")
    for number in numbers:
        passages, right, fact, question = planted(number)
        found = troth.cite(model, question, passages, f"Pigs can fly. {fact}")
        pigs, sentence = found.parts
        assert int(np.argmax(found.scores)) == right
        assert sentence.cited == found.cited == (right,)
        assert sentence.proof.without_cited < sentence.proof.random_low
        assert found.sentence(int(np.argmax(sentence.sentence_scores))) == fact
        assert pigs.cited == ()
        assert pigs.proof.erased  # what it would have been is erased all the same


def test_a_fact_that_stands_twice_is_missed_only_with_both():
    network, tokenizer = retriever()
    passages, right, fact, question = planted(3)
    again = next(place for place in range(8) if place != right)
    passages[again] += f" {fact} Nobody knows why."
    found = troth.cite(network, question, passages, fact, tokenizer=tokenizer)
    assert set(found.cited) == {right, again}
    assert found.whole.repeated
    assert found.whole.scores[list(found.cited)].max() < 1
    assert found.whole.log_probability - found.whole.proof.without_cited > 20


def test_the_bound_and_the_pruning():
    network, tokenizer = retriever()
    passages, right, fact, question = planted(5)
    pruned, whole = (
        troth.cite(network, question, passages, fact, tokenizer=tokenizer, tolerance=tolerance)
        for tolerance in (0.1, 0)
    )
    assert pruned.divided == (right,)
    assert whole.divided == tuple(range(8))
    assert pruned.passes < whole.passes
    undivided = [score for place, score in enumerate(pruned.scores) if place != right]
    assert max(undivided) <= 0.1 * pruned.scores[right]
    own = [place for place, _ in whole.sentences]
    same = whole.whole.sentence_scores[[number for number, place in enumerate(own) if place == right]]
    np.testing.assert_allclose(pruned.whole.sentence_scores, same, atol=1e-5)
    kept = troth.cite(network, question, [passages[right]], fact, tokenizer=tokenizer)
    assert pruned.undivided == pytest.approx(pruned.whole.log_probability - kept.whole.log_probability, abs=1e-4)


def test_the_model_writes_the_answer_itself():
    network, tokenizer = causal()
    found = troth.cite(network, "what", FILMS, tokenizer=tokenizer, max_length=512, generate=5)
    again = troth.cite(network, "what", FILMS, found.answer, tokenizer=tokenizer, max_length=512)
    assert found.written
    assert not again.written
    np.testing.assert_allclose(found.scores, again.scores, atol=1e-5)


def test_other_maskings_names_and_prompts():
    named = {"a.txt": FILMS[0], "b.txt": FILMS[1]}
    found = cite(named, "It was", masking="mask_token", prompt="{question}: {passages} so")
    assert found.names == ("a.txt", "b.txt")
    assert found.masking == "mask_token"
    deleted = cite(named, "It was", prompt="{question}: {passages} so")
    assert not np.allclose(found.scores, deleted.scores)
    assert deleted.whole.proof.choices == 1
    (alone,) = [cite(FILMS[:1], "It was").whole.proof]
    assert (alone.choices, alone.without_random) == (0, None)


def test_it_can_be_read_and_kept():
    found = cite(FILMS, "It was good. A bad film.")
    facts = json.loads(json.dumps(found.to_dict()))
    assert [each["number"] for each in facts["passages"]] == [1, 2, 3, 4]
    assert facts["passages"][2]["score"] == pytest.approx(float(found.scores[2]))
    assert facts["whole"]["proof"]["erased"] == [found.whole.proof.erased[0] + 1]
    assert "CitedAnswer" in repr(found)
    assert "of 4 passages" in repr(found)


@pytest.mark.parametrize(
    ("arguments", "options", "problem"),
    [
        ((FILMS, "it", " "), {}, "the question is empty"),
        (([], "it"), {}, "there are no passages"),
        ((["a", " "], "it"), {}, "passage 2 is empty"),
        ((["a", 3], "it"), {}, "passage 2 must be a text, not 3"),
        (("a film", "it"), {}, "passages must be a list of texts"),
        ((FILMS, ""), {}, "the continuation must be a text"),
        ((FILMS, "it"), {"tolerance": -1}, "tolerance must be 0 or more"),
        ((FILMS, "it"), {"choices": 0}, "choices must be 1 or more"),
        ((FILMS, "it"), {"masking": "gaussian"}, "erases the same way every time; gaussian draws"),
        ((FILMS, "it"), {"prompt": "{text}"}, "the prompt must contain {passages} and {question}"),
        ((["a film " * 400], "it"), {}, r"passages, question and answer take \d+ tokens, but .* reads 512"),
    ],
)
def test_bad_input(arguments, options, problem):
    with pytest.raises(TrothError, match=problem) as caught:
        cite(*arguments, **options)
    assert "\n" not in str(caught.value)


def test_models_that_do_not_write():
    with pytest.raises(TrothError, match=r"cite asks a causal language model, .*; tiny bert is a text classifier"):
        troth.cite(fakes.encoder("bert"), "what", FILMS, "it")
    with pytest.raises(TrothError, match="with compare, only texts are read: leave compare out"):
        troth.cite("http://localhost/v1#m", "what", FILMS, "it", compare="exact")
    with pytest.raises(TrothError, match="device is an option of load_model, but the model is loaded"):
        troth.cite(fakes.prompted(), "what", FILMS, "it", device="cpu")
