"""Attributions as plain data and back."""

import json

import numpy as np
import pytest

import fakes
import troth
from troth import Attribution

TEXT = ("a good film", "is it ?")


@pytest.mark.parametrize("units", ["word", "token", "sentence"])
def test_to_dict_and_back(units):
    model = fakes.encoder("bert")
    (attribution,) = troth.prove(
        model, troth.explain(model, [TEXT], "integrated_gradients", units=units, segments="both", seed=3, against=1,
                             target=2)
    )  # fmt: skip
    facts = json.loads(json.dumps(attribution.to_dict()))
    for again in (Attribution.from_dict(facts), Attribution.from_dict(facts, model)):
        assert again.to_dict() == facts
        assert np.array_equal(again.scores, attribution.scores)
        assert again.proof == attribution.proof
        assert again._repr_html_() == attribution._repr_html_()


def test_a_prompt_comes_back():
    model = fakes.prompted("gpt2")
    (attribution,) = troth.explain(model, "a good film", "leave_one_out")
    again = Attribution.from_dict(json.loads(json.dumps(attribution.to_dict())))
    assert again._repr_html_() == attribution._repr_html_()
    assert "Label:" in again._repr_html_()


def test_with_its_model_it_can_be_measured():
    model = fakes.encoder("bert")
    attributions = troth.explain(model, "a good film with a great cast", "gradient")
    facts = attributions[0].to_dict()
    (before,) = troth.measure(model, attributions, "comprehensiveness")
    (again,) = troth.measure(model, [Attribution.from_dict(facts, model)], "comprehensiveness")
    assert again.value == before.value
    with pytest.raises(troth.TrothError, match=r"read back without its model; use Attribution.from_dict\(facts, model"):
        troth.measure(model, [Attribution.from_dict(facts)], "comprehensiveness")
    with pytest.raises(troth.TrothError, match="read back without its model"):
        troth.prove(model, [Attribution.from_dict(facts)])


def test_facts_that_are_none():
    (attribution,) = troth.explain(fakes.encoder("bert"), "a good film", "gradient")
    facts = attribution.to_dict()
    with pytest.raises(troth.TrothError, match="2 scores and 3 spans for 3 units"):
        Attribution.from_dict({**facts, "scores": [1, 2]})
    for wrong in ({}, {**facts, "spans": 3}, {**facts, "proof": {"ratio": 1}}, {**facts, "text": 7}):
        with pytest.raises(troth.TrothError, match=r"not the data of an attribution|must be a string"):
            Attribution.from_dict(wrong)


def test_the_absolute_variant_has_no_proof_of_its_own():
    model = fakes.encoder("bert")
    (attribution,) = troth.prove(model, troth.explain(model, "a good film", "leave_one_out"))
    assert attribution.proof is not None
    assert attribution.magnitude().proof is None
