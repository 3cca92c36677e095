"""Every explainer on every kind of model: right length, finite, the same alone and in company, the model as before."""

import dataclasses

import numpy as np
import pytest
import torch

import fakes
import troth
from kinds import KINDS, MARKS, TEXTS, close, fingerprint_of, model_of, readable, refusals, state_of
from troth.core import catalog
from troth.engine.prober import Prober
from troth.verbs.explain import explain_each

EXPLAINERS = catalog.names("explainers")
# Made cheap: the contract is about shape and company, not about quality.
CHEAP = {
    "lime": "lime(samples=60)",
    "kernel_shap": "kernel_shap(samples=60)",
    "partition_shap": "partition_shap(samples=120)",
    "gradient_shap": "gradient_shap(samples=4)",
    "integrated_gradients": "integrated_gradients(steps=4)",
    "sequential_integrated_gradients": "sequential_integrated_gradients(steps=3)",
    "beam_search": "beam_search(width=2)",
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
    with refusals("explainers", kind, name):
        return troth.explain(model_of(kind), texts, spec_of(kind, name), **options)


def cases():
    return [
        pytest.param(kind, name, id=f"{name}-{kind}", marks=MARKS.get(kind, []))
        for name in EXPLAINERS
        if name not in NEEDS_MORE
        for kind in KINDS
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
    text = "A good film. Is it bad? The soup."  # few enough for exact_shapley
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
    """Planted in the first pass, which for many methods is the only one, and in the last."""
    model = fakes.hf_model("bert", seed=3)
    model.train()
    wrapped = troth.load_model(model, tokenizer=fakes.tokenizer_for("bert"))
    spec, texts = spec_of("bert", name), ["a good film", "the soup was cold"]
    before, original, passes, fails_at = state_of(model), type(wrapped).forward, [], []

    def counting(self, *arguments, **options):
        passes.append(self)
        if len(passes) in fails_at:
            with self.at_rest(attentions=True):
                raise RuntimeError("planted")
        return original(self, *arguments, **options)

    assert wrapped.pads  # found out by passes of its own, on first use
    wrapped.ready("embeddings", backward=True)
    monkeypatch.setattr(type(wrapped), "forward", counting)
    troth.explain(wrapped, texts, spec)
    for number in {1, len(passes)}:
        passes.clear()
        fails_at[:] = [number]
        with pytest.raises(RuntimeError, match="planted"):
            troth.explain(wrapped, texts, spec)
        assert state_of(model) == before


# A method fitted beforehand finds what its checkpoint has learned; test_attributive_masking fits one.
@pytest.mark.parametrize("name", [name for name in EXPLAINERS if name not in NEEDS_MORE | {"attributive_masking"}])
@pytest.mark.parametrize("kind", ["black_box", "bert"])
def test_planted_word_is_found(kind, name):
    if not catalog.find("explainers", name).asks_model:
        pytest.skip("it does not ask the model")
    black_box = troth.load_model(fakes.planted("awful"), labels=["fine", "bad"])
    model = black_box if kind == "black_box" else fakes.planted_bert("awful")
    with refusals("explainers", kind, name):
        attributions = troth.explain(
            model, ["the soup was awful and cold", "awful service", "it is bad and awful"], name
        )
    for attribution in attributions:
        assert attribution.target == 1
        assert attribution.units[int(np.argmax(attribution.scores))] == "awful"


@pytest.mark.parametrize("name", [name for name in EXPLAINERS if catalog.find("explainers", name).signed])
def test_every_signed_explainer_can_be_absolute(name):
    """Carried by the spec, said of the attribution, and listed in the docs, which read the same fields."""
    options = {"absolute": True} | catalog.parse(CHEAP.get(name, name))[1]
    method = catalog.construct(catalog.find("explainers", name), name, options)
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
