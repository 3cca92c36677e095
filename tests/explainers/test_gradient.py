import numpy as np
import pytest
import torch
from captum.attr import Saliency
from tests.explainers.referees import TEXTS, Formula, explained, questions, total

from fakes import encoder
from troth.core.types import Example, Question
from troth.explainers.gradient import Gradient


def test_by_hand():
    """f is the sum of the numbers, so every gradient is 1; over the vocabulary (3, 4, 0, …): 5 in L2, 7 in L1."""
    model = Formula({"good": 3.0, "film": 4.0}, total)
    (encoding,) = model.encode([Example("0", "a good film")])
    for norm, length in (("l2", 5.0), ("l1", 7.0)):
        (attribution,) = explained(Gradient(norm=norm), [Question(encoding, 1)], model)
        np.testing.assert_allclose(attribution.scores, [length] * 3, rtol=1e-5)
        assert attribution.rest == pytest.approx(2 * length)  # [CLS] and [SEP]


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("units", ["word", "token"])
def test_captum_on_the_one_hot_input(family, units):
    model = encoder(family)
    matrix = model.embedding_matrix.detach()
    asked = questions(family, units)
    found = {norm: explained(Gradient(norm=norm), asked, model) for norm in ("l2", "l1")}
    for number, question in enumerate(asked):
        encoding = question.encoding
        extra = {} if encoding.token_types is None else {"token_type_ids": encoding.token_types[None]}
        one_hot = torch.nn.functional.one_hot(encoding.ids, len(matrix)).float()[None]

        def forward(vocabulary, extra=extra):
            return model.model(inputs_embeds=vocabulary @ matrix, **extra).logits

        slope = Saliency(forward).attribute(one_hot, target=1, abs=False)[0]  # [length, vocabulary]
        for norm, power in (("l2", 2), ("l1", 1)):
            expected = encoding.per_unit(slope.norm(p=power, dim=-1)).numpy()
            scale = np.abs(expected).max()
            np.testing.assert_allclose(found[norm][number].scores, expected, atol=1e-4 * scale)
    assert len(found["l2"]) == len(TEXTS)
