"""Erased inputs that begin as the whole text does: that beginning is run once, and no score changes."""

import numpy as np
import pytest
import torch

import fakes
import troth
from asking import tokens_run
from troth.core.types import Example
from troth.models import _branches

LONG = "the soup was cold , the service awful , the bill absurd , and the film was good"
TEXTS = [LONG, "a good film was bad and a bad film was good", "awful"]


def load(family, **options):
    asked = {"prompt": "is it ? {text} it is", "class_words": ["good", "bad", "the"]} | options
    return troth.load_model(fakes.causal_model(family), fakes.causal_tokenizer(family), **asked)


def without(family, **options):
    model = load(family, **options)
    model.shares_prefix = False
    return model


FAMILIES = [
    pytest.param(family, marks=[] if family in ("llama", "gpt2") else pytest.mark.full) for family in fakes.CAUSAL
]
CASES = {
    "one token": {},
    "a tree of words": {"class_words": ["good film", "bad book"]},
    "no prompt": {"prompt": "{text}"},
    "a continuation": {"class_words": None, "continuation": "the film was good"},
    "what it writes": {"class_words": None, "generate": 5, "prompt": "{text}"},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_score_changes(family, case, monkeypatch):
    plans = []
    plan = _branches.plan
    monkeypatch.setattr(_branches, "plan", lambda *about: plans.append(plan(*about)) or plans[-1])
    monkeypatch.setattr(_branches, "_TOGETHER", {"cpu": 24})  # several chunks
    options = CASES[case]
    for masking in ("mask_token", "delete"):
        for explainer in ("leave_one_out", "lime(samples=20)"):
            ours, apart = (
                troth.explain(model, TEXTS, explainer, masking=masking)
                for model in (load(family, **options), without(family, **options))
            )
            for one, other in zip(ours, apart, strict=True):
                np.testing.assert_allclose(one.scores, other.scores, atol=2e-5)
                np.testing.assert_allclose(one.probabilities, other.probabilities, atol=2e-5)
    assert any(plan is not None for plan in plans)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_only_what_follows_the_first_erased_token_is_run(family):
    model = load(family)
    (encoding,) = model.encode([Example("0", LONG)], "token")
    assert model._has_plain_head  # which is tried once, on its own tokens
    units, length, begun = encoding.units.tolist(), len(encoding.ids), encoding.prefix_length
    found = tokens_run(model, lambda: troth.explain(model, LONG, "leave_one_out", units="token"))
    each = sum(length - units.index(unit) for unit in range(encoding.n_units))
    # The prompt, the text to choose the class, the text to be lent up to its last token, and every row's own tokens.
    assert found == begun + (length - begun) + (length - 1 - begun) + each
    assert found < begun + (2 + encoding.n_units) * (length - begun) * 0.7


def test_a_changed_model_forgets_the_text():
    model = load("llama")
    before = troth.explain(model, LONG, "leave_one_out", target=0)
    with torch.no_grad():
        model.model.model.layers[0].mlp.down_proj.weight.mul_(-1)
    after = troth.explain(model, LONG, "leave_one_out", target=0)
    apart = without("llama")
    with torch.no_grad():
        apart.model.model.layers[0].mlp.down_proj.weight.mul_(-1)
    expected = troth.explain(apart, LONG, "leave_one_out", target=0)
    np.testing.assert_allclose(after[0].scores, expected[0].scores, atol=2e-5)
    assert np.abs(after[0].scores - before[0].scores).max() > 1e-3


def test_few_texts_are_kept():
    model = load("gpt2")
    troth.explain(model, [f"{LONG} {'a ' * number}" for number in range(7)], "leave_one_out")
    assert len(model._trunks) <= 4


def test_a_sliding_window_lends_nothing():
    window = troth.load_model(
        fakes.causal_model("mistral", sliding_window=6), fakes.causal_tokenizer("mistral"),
        prompt="is it ? {text} it is", class_words=["good", "bad"],
    )  # fmt: skip
    troth.explain(window, LONG, "leave_one_out")
    assert not window._trunks


def test_the_attention_of_the_model_is_put_back(monkeypatch):
    model = load("gpt2")
    monkeypatch.setattr(_branches, "scaled_dot_product_attention", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        troth.explain(model, LONG, "leave_one_out")
    assert model.model.config._attn_implementation == "sdpa"
