"""Anybody else's scores: by spans, by tokens of any tokenizer, by our units; and what cannot be read."""

import numpy as np
import pytest
import torch

import fakes
import troth
from troth.core.errors import TrothError
from troth.core.types import Attribution, Example

BERT = fakes.encoder("bert")
TEXT = "A good film, unkind  Café!"


def imported(scores, text=TEXT, model=BERT, **options):
    return Attribution.from_scores(model, text, scores, **options)


def test_scores_of_our_units():
    attribution = imported([1, 2, 3, -4, 5, 6, 7])
    assert attribution.units == ("A", "good", "film", ",", "unkind", "Café", "!")
    assert attribution.scores.tolist() == [1, 2, 3, -4, 5, 6, 7]
    assert attribution.signed
    assert attribution.model == BERT.fingerprint
    assert attribution.explainer == ""
    assert not imported([1.0] * 7).signed
    assert imported([1.0] * 7, signed=True).signed
    (own,) = troth.explain(BERT, TEXT, "leave_one_out")
    assert attribution.target == own.target
    assert attribution.probabilities == pytest.approx(own.probabilities)


def test_scores_of_spans_are_summed_into_the_words_they_begin_in():
    spans = [(0, 1), (2, 4), (4, 6), (7, 11), (11, 12), (9, 20), (12, 13), (25, 26), (19, 21)]
    attribution = imported(range(1, 10), spans=spans)
    #                     A  good   film   ,  unkind Café !
    assert attribution.scores.tolist() == [1, 2 + 3, 4 + 6, 5, 7, 9, 8]
    assert attribution.rest == 0


def test_scores_of_the_models_own_tokens_special_ones_included():
    for family in fakes.FAMILIES:
        model = fakes.encoder(family)
        for text in (TEXT, "👍🏽 don't zero\u200bwidth שלום", ("the soup was cold", "is the film good ?")):
            example = Example("0", *([text] if isinstance(text, str) else text))
            (words,), (tokens,) = model.encode([example]), model.encode([example], "token")
            names = model.tokenizer.convert_ids_to_tokens(tokens.ids.tolist())
            numbers = torch.randn(len(names), generator=torch.Generator().manual_seed(1))
            attribution = imported(numbers, example, model, tokens=names)
            np.testing.assert_allclose(attribution.scores, words.per_unit(numbers).numpy(), atol=1e-5)
            assert attribution.rest == pytest.approx(float(numbers[words.units < 0].sum()), abs=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
@pytest.mark.parametrize("explainer", ["input_x_gradient", "gradient", "integrated_gradients(steps=3)"])
def test_our_own_token_scores_come_back_as_our_word_scores(family, explainer):
    model = fakes.encoder(family)
    text = "not a bad unlovable book !"
    (words,) = troth.explain(model, text, explainer)
    (tokens,) = troth.explain(model, text, explainer, units="token")
    named = model.tokenizer.convert_ids_to_tokens(tokens.question.encoding.ids.tolist())[1:-1]
    for options in ({"tokens": named}, {"spans": tokens.spans}):
        again = imported(tokens.scores, text, model, **options)
        np.testing.assert_allclose(again.scores, words.scores, rtol=1e-4, atol=1e-5)


FOREIGN = {
    "wordpiece": ["[CLS]", "a", "good", "film", ",", "un", "##kind", "cafe", "!", "[SEP]"],
    "byte level": ["<s>", "A", "Ġgood", "Ġfilm", ",", "Ġun", "kind", "ĠĠCafé", "!", "</s>"],
    "sentence piece": ["<s>", "▁A", "▁good", "▁film", ",", "▁un", "kind", "▁Café", "!", "</s>"],
    "end of word": ["<s>", "a</w>", "good</w>", "film</w>", ",</w>", "un", "kind</w>", "café</w>", "!</w>", "</s>"],
    "subword-nmt": ["<s>", "A", "good", "film", ",", "un@@", "kind", "Café", "!", "</s>"],
    "decoded": ["<s>", "A", " good", " film", ",", " un", "kind", "  Café", "!", "</s>"],
    "unknown": ["[CLS]", "a", "good", "[UNK]", ",", "un", "##kind", "[UNK]", "!", "[SEP]"],
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_tokens_of_other_tokenizers_are_found_in_the_text(kind):
    # Ten tokens; TEXT has more in ours, so that none of these is taken for the model's own.
    attribution = imported([100, 1, 2, 3, 4, 5, 6, 7, 8, 200], tokens=FOREIGN[kind])
    assert attribution.scores.tolist() == [1, 2, 3, 4, 5 + 6, 7, 8]
    assert attribution.rest == 300


def test_as_many_tokens_as_the_model_has_are_not_taken_for_its_own():
    text = "good film"
    assert len(BERT.encode([Example("0", text)])[0].ids) == 4
    attribution = imported([1, 2, 3, 4], text, tokens=["go", "##od", "fi", "##lm"])
    assert attribution.scores.tolist() == [3, 7]


def test_unknown_tokens_share_what_lies_between_the_known_ones():
    tokens = ["[CLS]", "[UNK]", "[UNK]", "a", "film", "[UNK]", "[SEP]"]
    attribution = imported([9, 1, 2, 3, 4, 5, 9], "çağ şey a film ğ", tokens=tokens)
    assert attribution.units == ("çağ", "şey", "a", "film", "ğ")
    assert attribution.scores.tolist() == [1, 2, 3, 4, 5]


def test_letters_that_grow_in_lower_case_shift_nothing():
    attribution = imported([1, 2], "İİİ film", tokens=["▁İİİ", "▁film"])
    assert attribution.scores.tolist() == [1, 2]


def test_marks_that_a_user_types_are_text():
    attribution = imported([1, 2, 3, 4], "## c# [mask] ok", tokens=["##", "c#", "[mask]", "ok"])
    found = dict(zip(attribution.spans, attribution.scores.tolist(), strict=True))
    assert found[0, 1] == 1
    assert found[3, 4] == 2
    assert found[6, 7] == 3
    assert found[13, 15] == 4


def test_the_second_text_and_what_was_cut_off_are_the_rest():
    tokens = ["[CLS]", "a", "film", "[SEP]", "is", "a", "film", "[SEP]"]
    attribution = imported(
        [0, 1, 2, 0, 10, 20, 30, 0], ("a film", "is a film"), tokens=[token + "" for token in tokens]
    )
    assert attribution.scores.tolist() == [1, 2]
    assert attribution.rest == 60
    foreign = ["a", "fi", "##lm", "is", "a", "film"]
    attribution = imported([1, 2, 3, 10, 20, 30], ("a film", "is a film"), tokens=foreign)
    assert attribution.scores.tolist() == [1, 5]
    assert attribution.rest == 60
    short = troth.load_model(BERT.model, tokenizer=BERT.tokenizer, max_length=4)
    spans = [(0, 1), (2, 6), (7, 11)]
    attribution = imported([1, 2, 4], "a good film", short, spans=spans)
    assert attribution.units == ("a", "good")
    assert attribution.scores.tolist() == [1, 2]
    assert attribution.rest == 4


def test_tensors_of_any_kind():
    numbers = torch.arange(7, dtype=torch.bfloat16, requires_grad=False)
    assert imported(numbers).scores.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert imported(torch.arange(7.0, requires_grad=True)).scores.tolist() == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("scores", "options", "line"),
    [
        ([1, 2], {}, "example 0: 2 scores for 7 units; give one score per unit"),
        ([1, 2], {"spans": [(0, 1)]}, "example 0: 2 scores for 1 spans; give one score per span"),
        ([1, 2], {"tokens": ["A"]}, "example 0: 2 scores for 1 tokens; give one score per token"),
        (np.ones((7, 16)), {}, "example 0: the scores have the shape [7, 16]; give one number per unit"),
        (3.0, {}, "scores must be one number per unit, token or span, not 3.0"),
        ([1, 2, float("nan"), 4, 5, 6, 7], {}, "example 0: score 2 is NaN or infinite"),
        ([1, float("inf")], {"spans": [(0, 1), (2, 3)]}, "example 0: score 1 is NaN or infinite"),
        ([1], {"spans": [(20, 27)]}, "example 0: span (20, 27) lies outside a text of 26 characters"),
        ([1], {"spans": [(-1, 2)]}, "example 0: span (-1, 2) lies outside a text of 26 characters"),
        ([1], {"spans": [(3, 2)]}, "example 0: span (3, 2) lies outside a text of 26 characters"),
        ([1, 2], {"tokens": ["A", "book"]}, "example 0: token 'book' does not follow in the text at character 1 "),
        ([1], {"tokens": ["A"], "spans": [(0, 1)]}, "pass either spans or tokens with the scores"),
        ([1] * 7, {"target": "nothing"}, "no class is called 'nothing'"),
        ([1] * 7, {"target": 5}, "example 0: class 5 is outside the model's 3 classes"),
    ],
)
def test_what_cannot_be_read_is_one_line(scores, options, line):
    with pytest.raises(TrothError) as caught:
        imported(scores, **options)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_measured_like_ours():
    (own,) = troth.explain(BERT, TEXT, "leave_one_out")
    foreign = imported(own.scores)
    for metric in ("comprehensiveness", "soft_sufficiency", "monotonicity"):
        (one,), (other,) = (troth.measure(BERT, [attribution], metric) for attribution in (own, foreign))
        assert one.value == pytest.approx(other.value, abs=1e-6)
    with pytest.raises(
        TrothError, match="explains the text again at every step, but these scores were imported; pass explainer"
    ):
        troth.measure(BERT, [foreign], "recursive_erasure")
    (one,), (other,) = (
        troth.measure(BERT, [attribution], "recursive_erasure", explainer="leave_one_out")
        for attribution in (own, foreign)
    )
    assert one.value == pytest.approx(other.value, abs=1e-6)
