import numpy as np
import pytest
from captum.attr import InputXGradient as Referee
from tests.explainers.referees import Formula, explained, from_vectors, questions

from fakes import encoder
from troth.core.types import Example, Question
from troth.explainers.input_x_gradient import InputXGradient


def test_by_hand():
    """f = good² · film: the gradients are 2 · good · film and good²."""
    model = Formula({"good": 3.0, "film": -2.0}, lambda numbers, _: numbers[:, 2] ** 2 * numbers[:, 3])
    (encoding,) = model.encode([Example("0", "a good film")])
    (attribution,) = explained(InputXGradient(), [Question(encoding, 1)], model)
    np.testing.assert_allclose(attribution.scores, [0, 2 * 3 * -2 * 3, 9 * -2], rtol=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("of", ["logit", "probability", "log_probability"])
def test_captum(family, of):
    model = encoder(family)
    reduce = {
        "logit": lambda logits: logits,
        "probability": lambda logits: logits.softmax(-1),
        "log_probability": lambda logits: logits.log_softmax(-1),
    }[of]
    for units in ("word", "token"):
        asked = questions(family, units)
        for question, found in zip(asked, explained(InputXGradient(of=of), asked, model), strict=True):
            forward, vectors = from_vectors(model, question, reduce)
            scores = Referee(forward).attribute(vectors.requires_grad_(), target=1)[0].sum(-1).detach()
            np.testing.assert_allclose(found.scores, question.encoding.per_unit(scores).numpy(), atol=1e-4)
            assert found.rest == pytest.approx(float(scores[question.encoding.units < 0].sum()), abs=1e-4)
