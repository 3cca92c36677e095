"""What may be given as a method: functions in all their forms, attributions, objects; and one line for what may not."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch

import fakes
import troth
from troth.core.errors import TrothError
from troth.core.types import Attribution, Example
from troth.explainers import Explainer
from troth.verbs.methods import EXPLAINERS

BERT = fakes.encoder("bert")
EXAMPLE = Example("7", "a good film !")
TOKENS = ["a", "good", "film", "!"]
SPANS = [(0, 1), (2, 6), (7, 11), (12, 13)]


def explained(function, example=EXAMPLE):
    (attribution,) = troth.explain(BERT, [example], function)
    return attribution


@pytest.mark.parametrize(
    "result",
    [
        [1, -2, 3, 4],
        (1.0, -2.0, 3.0, 4.0),
        np.array([1, -2, 3, 4]),
        torch.tensor([1.0, -2, 3, 4], requires_grad=True),
        (TOKENS, [1, -2, 3, 4]),
        [TOKENS, np.array([1, -2, 3, 4])],
        (SPANS, [1, -2, 3, 4]),
        [(token, score) for token, score in zip(TOKENS, [1, -2, 3, 4], strict=True)],
        [(*span, score) for span, score in zip(SPANS, [1, -2, 3, 4], strict=True)],
        [(0, 1, 1), (2, 4, -1), (4, 6, -1), (7, 11, 3), (12, 13, 4)],
    ],
    ids=range(10),
)
def test_forms_of_scores(result):
    def mine(text):
        assert text == EXAMPLE.text
        return result

    assert explained(mine).scores.tolist() == [1, -2, 3, 4]
    assert explained(mine).explainer == "mine"


def test_words_between_blanks_are_summed_into_ours():
    def mine(text):
        return [len(word) for word in text.split()]

    attribution = explained(mine, Example("0", "good, not bad!"))
    assert attribution.units == ("good", ",", "not", "bad", "!")
    assert attribution.scores.tolist() == [5, 0, 3, 4, 0]


def test_arguments_go_by_name_or_place():
    seen = []

    def by_name(target, text, model, seed=9):
        seen.append((target, text, model is BERT, seed))
        return [0.0] * 4

    def by_place(network, case, index):
        seen.append((index, case, network is BERT))
        return [0.0] * 4

    predicted = explained("random").target
    explained(by_name)
    explained(by_place)
    assert seen == [(predicted, EXAMPLE.text, True, 0), (predicted, EXAMPLE, True)]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"mine": 3}, "mine: 3 is not an explainer; give a name such as leave_one_out, an explainer, a function"),
        ({"mine": []}, "mine is a list that is empty; give attributions"),
        ({"mine": [0.5]}, "mine is a list that holds a float; give attributions"),
        ({"mine": lambda a, b, c, d: 0}, "mine takes 4 arguments; it may take any of: text, example, model"),
        ([lambda text: 0], "a lambda has no name; give it one: {'mine': lambda"),
        ({"random": "lime"}, "the name random is reserved for"),
        ({"": "lime"}, "a method's name must be a string"),
        ({"mine": "loo"}, "did you mean leave_one_out?"),
    ],
    ids=range(8),
)
def test_what_is_no_method_is_one_line(given, line):
    with pytest.raises(TrothError) as error:
        EXPLAINERS.methods(given)
    assert line in str(error.value)


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (None, "mine: example 7: it returned nothing; return one number per word"),
        ("a word", "mine: example 7: it returned str 'a word'; return"),
        ([1.0, 2.0], "mine: example 7: 2 scores for 4 units"),
        ([1.0, 2.0, float("nan"), 0.0], "mine: example 7: score 2 is NaN"),
        ((["no", "such"], [1, 2]), "token 'no' does not follow in the text"),
    ],
    ids=range(5),
)
def test_what_cannot_be_read_is_one_line(result, line):
    def mine(text):
        return result

    with pytest.raises(TrothError) as error:
        explained(mine)
    assert line in str(error.value)


def test_a_function_may_say_that_its_scores_are_unsigned():
    def mine(text):
        return [1.0, 2.0, -3.0, 0.0]

    assert explained(mine).signed
    mine.signed = False
    with pytest.raises(TrothError, match="mine: example 7: a score is negative, but signed is False"):
        explained(mine)


@dataclass(frozen=True)
class Unsaid(Explainer):
    def ask(self, question):
        yield from ()
        return Attribution(question, np.zeros(question.n_units), signed=False)


@dataclass(frozen=True)
class Said(Unsaid):
    signed: ClassVar[bool] = False

    width: int = 1


def test_objects_and_classes_of_ones_own():
    (given,) = EXPLAINERS.methods([Said])
    assert (given.name, given.full, given.in_memory) == ("said", "said(width=1)", True)
    assert EXPLAINERS.methods([Said(2)])[0].code not in (None, given.code)
    with pytest.raises(TrothError, match="Unsaid does not say whether its scores can be negative"):
        EXPLAINERS.methods([Unsaid()])
    with pytest.raises(TrothError, match="two explainers are called 'mine'"):
        EXPLAINERS.methods([named("mine", 1), named("mine", 2)])


def named(name, value):
    def function(text):
        return [value]

    function.__name__ = name
    return function


def test_attributions_go_to_the_examples_of_their_text():
    data = [Example(name, text, label=0) for name, text in (("a", "good film"), ("b", "bad film"), ("c", "dull"))]
    scores = {"good film": [2, 1], "bad film": [-3, 1], "dull": [4]}
    given = [troth.Attribution.from_scores(BERT, text, scores[text]) for text in ("dull", "bad film", "good film")]
    (own,) = EXPLAINERS.methods({"mine": given})
    again = troth.explain(BERT, data, own.instance)
    assert [attribution.scores.tolist() for attribution in again] == [[2, 1], [-3, 1], [4]]
    own.instance.require(data)
    with pytest.raises(
        TrothError, match=r"mine: 1 of 4 examples have no attribution; the first one is d \('new text'\)"
    ):
        own.instance.require([*data, Example("d", "new text")])
    with pytest.raises(TrothError, match=r"mine: example c was explained for the class .*, but here it is"):
        troth.explain(BERT, data[2:], own.instance, target=(given[0].target + 1) % 3)
    (other,) = EXPLAINERS.methods({"mine": [replace(given[0], model="another")]})
    with pytest.raises(TrothError, match="explained on another model"):
        troth.explain(BERT, data[2:], other.instance)
