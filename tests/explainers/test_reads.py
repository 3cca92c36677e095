"""The class is chosen in the very pass in which a single-pass explainer reads the whole input."""

import pytest
import torch

import troth
from fakes import CORPUS, encoder
from kinds import state_of
from troth.core import catalog
from troth.engine.prober import Prober
from troth.verbs.explain import explain_each

ONE_PASS = ["attention", "attention_x_gradient", "gradient", "gradient(norm=l1)", "input_x_gradient"]


@pytest.mark.parametrize("spec", ONE_PASS)
@pytest.mark.parametrize("target", ["predicted", 2])
def test_one_pass_a_text(spec, target):
    prober = Prober(encoder())
    found = list(explain_each(prober, CORPUS, spec, target=target))
    assert prober.cost.forward == len(CORPUS)
    # The same as when the class is known and the model is asked about it alone.
    for text, attribution in zip(CORPUS, found, strict=True):
        (alone,) = Prober(encoder()).ask(catalog.build("explainers", spec).ask([attribution.question]))
        assert attribution.scores == pytest.approx(alone.scores, rel=1e-4, abs=1e-6)
        logits = encoder().model(**encoder().tokenizer(text, return_tensors="pt")).logits[0]
        assert attribution.probabilities == pytest.approx(logits.softmax(-1).tolist(), abs=1e-6)
        assert attribution.target == (int(logits.argmax()) if target == "predicted" else 2)


@pytest.mark.parametrize("spec", ["gradient", "attention_x_gradient", "input_x_gradient"])
def test_a_contrast_is_chosen_first(spec):
    (first,) = troth.explain(encoder(), CORPUS[0], spec, target=0, against=1)
    (second,) = troth.explain(encoder(), CORPUS[0], spec, target=0)
    assert first.question.against == 1
    assert first.scores != pytest.approx(second.scores, abs=1e-4)


def test_many_explainers_share_what_they_read():
    prober = Prober(encoder())
    for spec in ("gradient", "input_x_gradient"):
        list(explain_each(prober, CORPUS[:1], spec, target=1))
    # Two encodings of one text share nothing; one encoding asked twice does.
    assert prober.cost.backward == 2
    encodings = encoder().encode([troth.Example(id="0", text=CORPUS[0])])
    prober = Prober(encoder())
    question = troth.core.types.Question(encodings[0], 1)
    for spec in ("gradient", "input_x_gradient"):
        prober.ask(catalog.build("explainers", spec).ask([question]))[0]
    assert prober.cost.backward == 1


def test_reading_attentions_leaves_no_hook():
    model = encoder("electra")
    before = state_of(model.model)
    troth.explain(model, CORPUS[:2], "attention")
    assert state_of(model.model) == before
    with torch.no_grad():
        ids = model.tokenizer(CORPUS[0], return_tensors="pt")
        model.model.set_attn_implementation("eager")
        try:
            assert len(model.model(**ids, output_attentions=True).attentions) == 2  # still works for its owner
        finally:
            model.model.set_attn_implementation("sdpa")
