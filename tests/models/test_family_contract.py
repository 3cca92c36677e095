"""Every family of zoo.py, the same checks against plain calls of transformers: alone and in company, erased by ids and
by texts, completeness, attention; and what a family lacks it refuses in one line.
"""

from functools import lru_cache

import numpy as np
import pytest
import torch

import troth
import zoo
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.models._changes import own_attention_type

TEXTS = ["a good film", "my new phone is fast , bright and a joy to use", "awful"]
FAMILIES = [pytest.param(name, marks=pytest.mark.full if zoo.FAMILIES[name].full else ()) for name in zoo.FAMILIES]
PATH = "integrated_gradients(steps=150, rule=gauss_legendre, baseline=mask)"

wrapped = lru_cache(zoo.wrapped)


def lacking(what):
    return [case for case in FAMILIES if what in zoo.FAMILIES[case.values[0]].lacks]


def having(what):
    return [case for case in FAMILIES if what not in zoo.FAMILIES[case.values[0]].lacks]


def plain(model, text=None, ids=None, **options):
    """The whole output of a call as transformers' users make it."""
    given = model.tokenizer(text or "", return_tensors="pt")
    if ids is not None:
        given = {"input_ids": ids[None], "token_type_ids": torch.zeros_like(ids)[None]}
    # BigBird switches to full attention when it reads a short text; other tests share the model.
    with torch.no_grad(), own_attention_type(model.model):
        return model.model(**given, **options)


def logit(model, *, text=None, ids=None):
    return float(plain(model, text, ids).logits[0, 0])


def erased(encoding, gone, mask):
    return torch.where(torch.isin(encoding.units, torch.tensor(gone)), mask, encoding.ids)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_first_use_finds_how_it_reads(name):
    model, family = wrapped(name), zoo.FAMILIES[name]
    found = {"reads": model.call_convention.reads, "pads": model.pads, "start": model.call_convention.decoder_start}
    assert found == {"reads": family.reads, "pads": family.pads, "start": family.start}


@pytest.mark.parametrize("name", FAMILIES)
def test_in_company_as_alone(name):
    model = wrapped(name)
    explainers = ["leave_one_out"] + ["gradient"] * ("gradients" not in zoo.FAMILIES[name].lacks)
    for explainer in explainers:
        together = troth.explain(model, TEXTS, explainer, target=0)
        for text, attribution in zip(TEXTS, together, strict=True):
            (alone,) = troth.explain(model, text, explainer, target=0)
            np.testing.assert_allclose(attribution.scores, alone.scores, atol=3e-6, rtol=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_leave_one_out_is_what_plain_calls_say(name):
    """Of ids with one word masked, and of texts with one word left out."""
    model = wrapped(name)
    masked, deleted = (
        troth.explain(model, TEXTS, "leave_one_out", target=0, masking=masking) for masking in ("mask_token", "delete")
    )
    for text, by_ids, by_text in zip(TEXTS, masked, deleted, strict=True):
        (encoding,) = model.encode([Example("0", text)])
        words, whole = text.split(), logit(model, text=text)
        gone = range(len(words))
        ids = [whole - logit(model, ids=erased(encoding, [unit], model.mask_id)) for unit in gone]
        texts = [whole - logit(model, text=" ".join(words[:unit] + words[unit + 1 :])) for unit in gone]
        np.testing.assert_allclose(by_ids.scores, ids, atol=5e-6)
        np.testing.assert_allclose(by_text.scores, texts, atol=5e-6)


@pytest.mark.parametrize("name", having("gradients"))
def test_integrated_gradients_sum_to_what_masking_all_changes(name):
    model = wrapped(name)
    (attribution,) = troth.explain(model, TEXTS[1], PATH, target=0)
    (encoding,) = model.encode([Example("0", TEXTS[1])])
    everything = list(range(encoding.n_units))
    change = logit(model, ids=encoding.ids) - logit(model, ids=erased(encoding, everything, model.mask_id))
    close = 0.2 if "derivatives" in zoo.FAMILIES[name].lacks else 0.01  # YOSO's are a lower bound, not the derivative
    assert abs(float(attribution.scores.sum()) - change) < close * np.abs(attribution.scores).sum()
    assert np.abs(attribution.scores).sum() > 1e-3


# transformers hooks layers once, and BigBird replaces its own for short texts: what it gives depends on what it read.
@pytest.mark.parametrize("name", [case for case in having("attention") if case.values[0] != "big_bird"])
def test_attention_is_that_of_the_state_classified(name):
    model, family = wrapped(name), zoo.FAMILIES[name]
    (attribution,) = troth.explain(model, TEXTS[1], "attention")
    (encoding,) = model.encode([Example("0", TEXTS[1])])
    with model.at_rest(attentions=True):
        output = plain(model, ids=encoding.ids, output_attentions=True)
    weights = (output.attentions if family.start is None else output.cross_attentions)[-1][0].mean(0)
    rows = {"first": weights[0], "last": weights[-1], "end": weights[-1], "all": weights.mean(0)}
    expected = encoding.per_unit(rows[family.reads])
    np.testing.assert_allclose(attribution.scores, expected.numpy(), atol=1e-6)
    assert attribution.scores.sum() + attribution.rest == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("name", lacking("gradients"))
@pytest.mark.parametrize("explainer", ["gradient", "integrated_gradients", "deep_lift"])
def test_without_gradients_one_line_says_what_to_use(name, explainer):
    refused(wrapped(name), explainer, "use an explainer that only erases (leave_one_out, lime, kernel_shap)")


@pytest.mark.parametrize("name", lacking("attention"))
def test_without_attention_one_line_says_what_to_use(name):
    refused(wrapped(name), "attention", "no attention weights from token to token to read; use")


def refused(model, explainer, instead):
    with pytest.raises(TrothError) as caught:
        troth.explain(model, TEXTS, explainer)
    said = str(caught.value)
    assert said.startswith(type(model.model).__name__)
    assert instead in said
    assert "\n" not in said
