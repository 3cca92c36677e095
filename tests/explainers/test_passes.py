"""What a method says it asks of the model is about what it asks."""

import pytest

import fakes
from troth import catalog
from troth.errors import TrothError
from troth.explaining import explain_each
from troth.models.encoder import Encoder
from troth.probing import Prober
from troth.types import Example


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
