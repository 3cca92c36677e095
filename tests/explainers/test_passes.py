"""What a method says it asks of the model is about what it asks."""

import pytest

import fakes
from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.engine.prober import Prober
from troth.models.encoder import Encoder
from troth.verbs.explain import explain_each


def built(name):
    try:
        return catalog.build("explainers", name)
    except TrothError:  # it must be given a checkpoint or a language model
        return None


@pytest.mark.parametrize("name", [name for name in catalog.names("explainers") if built(name) is not None])
@pytest.mark.parametrize("words", [3, 6])
def test_passes_are_foretold(name, words):
    explainer = built(name)
    prober = Prober(Encoder(fakes.hf_model("bert"), fakes.tokenizer_for("bert"), name="bert"))
    text = " ".join(["good", "film", "not", "bad", "at", "all"][:words])
    try:
        (found,) = explain_each(prober, [Example("0", text)], explainer)
    except TrothError as error:
        pytest.skip(str(error))
    assert len(found.units) == words
    asked = prober.cost.forward + prober.cost.backward
    assert asked / 2 - 2 <= explainer.passes(words) <= 2 * asked + 2


@pytest.mark.parametrize("objective", ["comprehensiveness", "comp_minus_suff"])
@pytest.mark.parametrize("words", [30, 45])
def test_passes_of_a_beam_search_on_longer_texts(objective, words):
    explainer = catalog.build("explainers", f"beam_search(width=5, objective={objective})")
    prober = Prober(Encoder(fakes.hf_model("bert"), fakes.tokenizer_for("bert"), name="bert"))
    text = " ".join(["good", "film", "not", "bad", "at", "a"][place % 6] for place in range(words))
    list(explain_each(prober, [Example("0", text)], explainer))
    # Entries of one beam grow into a few common sets, so that slightly fewer are asked about.
    assert 0.85 * explainer.passes(words) <= prober.cost.forward <= explainer.passes(words)


def test_a_beam_search_of_a_film_review_takes_over_a_million_passes():
    assert catalog.build("explainers", "beam_search").passes(504) == pytest.approx(1.27e6, rel=0.01)
    # Five times as wide, and what is kept is asked about as well as what is erased.
    wide = catalog.build("explainers", "beam_search(preset=solvex)")
    assert wide.passes(504) == pytest.approx(10 * 1.27e6, rel=0.01)
