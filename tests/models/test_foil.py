"""Why this rather than that: a foil, and what the model wrote before as units, against runs of their own."""

import numpy as np
import pytest
import torch

import fakes
import troth
from troth.core.errors import TrothError
from troth.core.types import Attribution, Example
from troth.report.explanation import layout

TEXT = "the film was good. a bad"
FACT, FOIL = " film was the good", " bad"


def load(family="gpt2", **options):
    torch.manual_seed(0)
    return troth.load_model(fakes.causal_model(family), fakes.causal_tokenizer(family), **options)


METHODS = [
    "leave_one_out", "input_x_gradient", "integrated_gradients(steps=5, baseline=mask)", "exact_shapley",
    "kernel_shap(samples=200)", "gradient_shap(samples=3)", "lime(samples=40)",
]  # fmt: skip


def cases():
    for method in METHODS:
        yield method, "gpt2"
        quick = method == "leave_one_out" or method.startswith("integrated_gradients")
        yield pytest.param(method, "llama", marks=() if quick else pytest.mark.full)


@pytest.mark.parametrize(("method", "family"), cases())
def test_equals_the_difference_of_two_runs(method, family):
    """All of these are linear in what they explain."""
    for fact, foil in ((FACT, FOIL), (FOIL, FACT)):
        one, other, both = (
            troth.explain(load(family, **options), TEXT, method)[0]
            for options in ({"continuation": fact}, {"continuation": foil}, {"continuation": fact, "against": foil})
        )
        np.testing.assert_allclose(both.scores, one.scores - other.scores, atol=3e-5)
        assert both.probabilities == pytest.approx([one.probabilities[0] - other.probabilities[0]], abs=1e-5)


@pytest.mark.parametrize("masking", ["delete", "zero", "attention"])
def test_by_hand(masking):
    """Both log-probabilities by plain passes of transformers, with each word of the text deleted."""
    model = load(continuation=FACT, against=FOIL)
    (attribution,) = troth.explain(model, TEXT, "leave_one_out", masking=masking)
    assert np.abs(attribution.scores).max() > 0.1
    if masking != "delete":
        return
    (encoding,) = model.encode([Example("0", TEXT)])
    context = encoding.ids[: len(encoding.ids) - len(encoding.written) + 1].tolist()
    units = encoding.units.tolist()

    def value(ids):
        sums = []
        for written in (model.ids, model.foil.ids):
            logs = model.model(torch.tensor([[*ids, *written]])).logits[0].log_softmax(-1)
            sums.append(sum(float(logs[len(ids) - 1 + place, token]) for place, token in enumerate(written)))
        return sums[0] - sums[1]

    for unit, score in enumerate(attribution.scores):
        left = [token for token, of in zip(context, units, strict=False) if of != unit]
        assert score == pytest.approx(value(context) - value(left), abs=1e-4)


def test_texts_of_several_lengths_and_nothing_left():
    model = load(continuation=FACT, against=FOIL)
    texts = [TEXT, "a", "film was good"]
    for masking in ("mask_token", "delete"):  # of "a" nothing is left
        together = troth.explain(model, texts, "leave_one_out", masking=masking)
        for text, found in zip(texts, together, strict=True):
            (one,), (other,) = (
                troth.explain(load(continuation=each), text, "leave_one_out", masking=masking) for each in (FACT, FOIL)
            )
            np.testing.assert_allclose(found.scores, one.scores - other.scores, atol=3e-5)


def test_what_it_writes_against_a_foil():
    written = load(generate=4)
    found = troth.explain(load(generate=4, against=FOIL), [TEXT, "a film"], "leave_one_out")
    own, other = (
        troth.explain(model, [TEXT, "a film"], "leave_one_out") for model in (written, load(continuation=FOIL))
    )
    for both, one, foil in zip(found, own, other, strict=True):
        np.testing.assert_allclose(both.scores, one.scores - foil.scores, atol=3e-5)


def test_it_is_kept_and_shown():
    model = load(continuation=FACT, against=FOIL)
    assert load(**model.spec).fingerprint == model.fingerprint != load(continuation=FACT).fingerprint
    attributions = troth.prove(model, troth.explain(model, TEXT, "leave_one_out"))
    assert attributions[0].labels == ("the whole continuation rather than “bad”",)
    assert "“film was the good” rather than “bad”" in attributions[0]._repr_html_()
    back = Attribution.from_dict(attributions[0].to_dict(), model)
    (score,) = troth.measure(model, [back], "comprehensiveness(ratio=0.3)")
    assert np.isfinite(score.value)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"continuation": FACT, "against": " "}, "against must be another continuation, not ' '; leave it out"),
        ({"continuation": FACT, "against": FACT}, "continuation and against are the same tokens"),
        ({"continuation": FACT, "against": 3}, "against must be another continuation, not 3"),
        (
            {"continuation": FACT, "against": FOIL, "explain_parts": ["written"]},
            "written and against cannot be combined",
        ),
        ({"continuation": FACT, "reasoning": " "}, "reasoning must be a text, not ' '"),
        ({"continuation": FACT, "explain_parts": ["reasoning"]}, "no part of this prompt is called 'reasoning'"),
        ({"against": FOIL}, "against is for a language model.s continuation"),
    ],
)
def test_bad_input(options, problem):
    with pytest.raises(TrothError, match=problem):
        load(**options)


def test_token_by_token_is_refused_by_name():
    model = load(continuation=FACT, against=FOIL)
    with pytest.raises(TrothError, match="each explains every token of a continuation, but with against=' bad' two"):
        troth.explain(model, TEXT, "leave_one_out", target="each")
    with pytest.raises(TrothError, match="one position that decides"):
        troth.explain(model, TEXT, "attention")


# What the model wrote before


def log_probabilities(model, ids, answer):
    """[tokens] of the last ones."""
    logs = model.model(torch.tensor([ids])).logits[0].log_softmax(-1)
    start = len(ids) - len(answer)
    return np.array([float(logs[start + place - 1, token]) for place, token in enumerate(answer)])


@pytest.mark.parametrize("masking", ["mask_token", "delete"])
def test_reasoning_is_erased_like_the_prompt(masking):
    model = load(continuation="the film", reasoning="A good film. It was bad.", explain_parts=["text", "reasoning"])
    (attribution,) = troth.explain(model, "why", "leave_one_out", units="sentence", masking=masking)
    assert attribution.units == ("why", "A good film.", "It was bad.")
    (encoding,) = model.encode([Example("0", "why")], "sentence")
    assert model.tokenizer.decode(encoding.ids) == "why A good film. It was bad. the"
    whole = [*encoding.ids.tolist(), model.ids[-1]]
    for unit, score in enumerate(attribution.scores):
        of = [*encoding.units.tolist(), -2]
        if masking == "delete":
            left = [token for token, each in zip(whole, of, strict=True) if each != unit]
        else:
            left = [model.mask_id if each == unit else token for token, each in zip(whole, of, strict=True)]
        change = log_probabilities(model, whole, model.ids).sum() - log_probabilities(model, left, model.ids).sum()
        assert score == pytest.approx(change, abs=1e-4)
    assert load(**model.spec).fingerprint == model.fingerprint
    words = troth.explain(model, "why", "leave_one_out")[0]
    assert words.units == ("why", "A", "good", "film", ".", "It", "was", "bad", ".")
    frozen = load(continuation="the film", reasoning="A good film. It was bad.")
    assert troth.explain(frozen, "why", "leave_one_out")[0].units == ("why",)


def test_reasoning_before_a_class_word():
    model = load(prompt="{text} is", class_words=["good", "bad"], reasoning="so slow", explain_parts=["reasoning"])
    (attribution,) = troth.explain(model, "it", "leave_one_out")
    assert attribution.units == ("so", "slow")
    assert model.any_text == "text is so slow"
    assert load(**model.spec).fingerprint == model.fingerprint


def test_tokens_written_before_are_units():
    """As in inseq: an erased token is still asked for, but those behind it are written without it."""
    model = load(continuation=FACT, explain_parts=["text", "written"])
    (matrix,) = troth.explain(model, TEXT, "leave_one_out", units="token", target="each").matrices()
    (encoding,) = model.encode([Example("0", TEXT)], "token")
    whole, count = [*encoding.ids.tolist(), model.ids[-1]], len(model.ids)
    assert matrix.units[-count + 1 :] == (" film", " was", " the")
    for unit in range(len(matrix.units)):
        units = [*encoding.units.tolist(), -2]
        left = [model.mask_id if of == unit else token for token, of in zip(whole, units, strict=True)]
        change = log_probabilities(model, whole, model.ids) - log_probabilities(model, left, model.ids)
        np.testing.assert_allclose(matrix.scores[:, unit], change, atol=1e-4)
    own = matrix.scores[:, -count + 1 :]  # [tokens, those before the last]: nothing depends on itself or on later ones
    np.testing.assert_allclose(np.triu(own[:-1]), 0, atol=1e-6)
    assert np.abs(np.tril(own, -1)).max() > 0.1
    shown = layout(troth.explain(model, TEXT, "leave_one_out")[0])
    assert [text for text, _, _ in shown].count("film") == 2  # once in the text, once in what was written
    with pytest.raises(TrothError, match="the continuation cannot be deleted"):
        troth.explain(model, TEXT, "leave_one_out", masking="delete")
    (gradient,) = troth.explain(model, TEXT, "input_x_gradient", units="token", target=[1])
    assert not gradient.scores[-count + 1 :].any()
