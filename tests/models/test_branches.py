"""Erased inputs that begin as the whole text does: that beginning is run once, and no score changes."""

import numpy as np
import pytest
import torch

import fakes
import troth
from asking import tokens_run
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import Probe
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


@pytest.mark.parametrize("kernels", [(), ("cpu",)])
def test_a_long_text_is_lent_as_soon_as_it_is_read_whole(kernels, monkeypatch):
    """Then a batch of a single row runs no more than what follows its first erased token, with and without a mask."""
    monkeypatch.setattr(_branches, "_CAUSAL_KERNELS", kernels)
    asked = {"prompt": "is it ? {text} it is", "continuation": "the film was good", "max_length": 2048}
    tokens, logits = [], []
    for shares in (True, False):
        network = fakes.causal_model("llama", max_position_embeddings=2048)
        model = troth.load_model(network, fakes.causal_tokenizer("llama"), **asked)
        model.shares_prefix = shares
        (encoding,) = model.encode([Example("0", f"{LONG} . " * 15)], [(0, 500), (500, 1000), (1000, 1229)])

        def each_alone(encoding=encoding):
            (whole,) = (yield Probe(Question(encoding, 0), torch.ones(1, 3))).logits
            without = yield Probe(Question(encoding, 0), 1 - torch.eye(3))
            logits.append(torch.stack([whole, *without.logits]))

        prober = Prober(model, "delete", memory=1)
        tokens.append(tokens_run(model, lambda prober=prober, ask=each_alone: prober.ask(ask())))
        assert prober.cost.batches == 4
    assert len(encoding.ids) > _branches._LONG
    np.testing.assert_allclose(*logits, atol=2e-5)
    assert tokens[0] < 0.7 * tokens[1]


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
