"""Every explainer on every kind of model: right length, finite, the same alone and in company, the model as before."""

import dataclasses

import numpy as np
import pytest
import torch

import fakes
import troth
from kinds import KINDS, TEXTS, close, fingerprint_of, model_of, readable, state_of
from troth.core import catalog
from troth.core.errors import TrothError
from troth.engine.prober import Prober
from troth.verbs.explain import explain_each

EXPLAINERS = catalog.names("explainers")
# Made cheap: the contract is about shape and company, not about quality.
CHEAP = {
    "lime": "lime(samples=60)",
    "kernel_shap": "kernel_shap(samples=60)",
    "gradient_shap": "gradient_shap(samples=4)",
    "integrated_gradients": "integrated_gradients(steps=4)",
    "sequential_integrated_gradients": "sequential_integrated_gradients(steps=3)",
    "beam_search": "beam_search(width=3)",
}
# What needs more than a model and a text (an LLM) has tests of its own.
NEEDS_MORE = {"llm_ranking"}


def spec_of(kind, name):
    if name != "attributive_masking":
        return CHEAP.get(name, name)
    # An attribution model for the classes of this model; a black box has no vectors to take steps by.
    checkpoint = fakes.checkpoint(labels=tuple(model_of(kind).labels))
    return f"attributive_masking(checkpoint={checkpoint!r}, steps={0 if kind == 'black_box' else 1})"


def run(kind, name, texts, **options):
    try:
        return troth.explain(model_of(kind), texts, spec_of(kind, name), **options)
    except TrothError as error:
        # A refusal names the model or its kind, and what to use instead.
        assert "use " in str(error), error
        pytest.skip(str(error))


def cases():
    return [
        pytest.param(kind, name, id=f"{name}-{kind}") for name in EXPLAINERS if name not in NEEDS_MORE for kind in KINDS
    ]


@pytest.mark.parametrize(("kind", "name"), cases())
def test_explainer(kind, name):
    # exact_shapley asks 2ⁿ times.
    texts = [text for text in readable(kind, TEXTS) if name != "exact_shapley" or len(text.text) < 30]
    together = run(kind, name, texts)
    weights = fingerprint_of(kind)
    for example, attribution in zip(texts, together, strict=True):
        assert attribution.example is example
        assert attribution.scores.shape == (len(attribution.units),)
        assert np.isfinite(attribution.scores).all()
        assert attribution.signed == catalog.find("explainers", name).signed
        assert attribution.signed or (attribution.scores >= 0).all()
        for text, (start, end) in zip(attribution.units, attribution.spans, strict=True):
            assert example.text[start:end] == text
    if name != "tf_idf":  # which is fitted on the company it keeps
        alone = [run(kind, name, [example])[0] for example in texts[:2]]
        tight = Prober(model_of(kind), memory=1, window=2)  # a row at a time
        backwards = list(explain_each(tight, texts[::-1], spec_of(kind, name)))[::-1]
        for others in (alone, backwards):
            for attribution, other in zip(together, others, strict=False):
                close(attribution.scores, other.scores)
    assert fingerprint_of(kind) == weights


@pytest.mark.parametrize("name", [name for name in EXPLAINERS if name not in NEEDS_MORE])
@pytest.mark.parametrize("units", ["token", "sentence"])
def test_every_unit(name, units):
    text = "A good film. Is the book bad? The soup was cold."
    (attribution,) = run("bert", name, text, units=units)
    tokens = fakes.tokenizer_for("bert").tokenize(text)
    assert len(attribution.scores) == len(attribution.units) == (len(tokens) if units == "token" else 3)
    assert np.isfinite(attribution.scores).all()


@pytest.mark.parametrize("name", [name for name in EXPLAINERS if name not in NEEDS_MORE])
def test_edges(name):
    empty, mask, unknown = run("bert", name, ["", "[MASK] good", "漢 漢"])
    assert empty.scores.shape == (0,)
    assert len(mask.scores) == len(mask.units)
    assert np.isfinite(unknown.scores).all()


@pytest.mark.parametrize("name", [name for name in EXPLAINERS if name not in NEEDS_MORE])
def test_second_text_is_explained_only_on_request(name):
    pair = ("the soup was cold", "is the film good ?")
    (first,) = run("bert", name, pair)
    (both,) = run("bert", name, pair, segments="both")
    assert first.units == ("the", "soup", "was", "cold")
    assert both.units == (*first.units, "is", "the", "film", "good", "?")


@pytest.mark.parametrize("name", [name for name in EXPLAINERS if name not in NEEDS_MORE])
def test_an_exception_in_the_middle_leaves_the_model_as_it_was(name, monkeypatch):
    model = fakes.hf_model("bert", seed=3)
    model.train()
    wrapped = troth.load_model(model, tokenizer=fakes.tokenizer_for("bert"))
    before = state_of(model)
    calls = {"left": 1}
    original = type(wrapped).forward

    def failing(self, *arguments, **options):
        calls["left"] -= 1
        if calls["left"] < 0:
            with self.at_rest(attentions=True):
                raise RuntimeError("planted")
        return original(self, *arguments, **options)

    monkeypatch.setattr(type(wrapped), "forward", failing)
    try:
        troth.explain(wrapped, ["a good film", "the soup was cold"], spec_of("bert", name))
    except RuntimeError as error:
        assert str(error) == "planted"
    assert state_of(model) == before


def test_planted_word_is_found():
    model = troth.load_model(fakes.planted("awful"), labels=["fine", "bad"])
    text = "the soup was awful and cold"
    asked = 0
    for name in EXPLAINERS:
        method = catalog.find("explainers", name)
        if name in NEEDS_MORE or not method.asks_model:
            continue
        try:
            (attribution,) = troth.explain(
                model, text, name if name != "attributive_masking" else spec_of("black_box", name)
            )
        except TrothError:
            continue  # a black box has no gradients
        asked += 1
        assert attribution.units[int(np.argmax(attribution.scores))] == "awful", name
    assert asked


@pytest.mark.parametrize("name", [name for name in EXPLAINERS if catalog.find("explainers", name).signed])
def test_every_signed_explainer_can_be_absolute(name):
    """Carried by the spec, said of the attribution, and listed in the docs, which read the same fields."""
    options = {"absolute": True} | catalog.parse(CHEAP.get(name, name))[1]
    method = catalog.construct("explainers", name, options)
    assert not method.gives_signed
    assert catalog.build("explainers", catalog.spec(method)) == method
    plain, absolute = (
        troth.explain(fakes.encoder("bert"), "a good film , not a bad book", catalog.spec(one), target=1)[0]
        for one in (dataclasses.replace(method, absolute=False), method)
    )
    close(absolute.scores, np.abs(plain.scores))
    assert (plain.signed, absolute.signed) == (True, False)


def test_torch_is_single_threaded():
    assert torch.get_num_threads() == 1
