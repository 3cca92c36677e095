import numpy as np
import pytest
import torch
from captum.attr import FeatureAblation
from tests.explainers.referees import explained, questions, value

import troth
from fakes import Lookup, encoder
from troth.explainers.leave_one_out import LeaveOneOut


def test_by_hand():
    model = Lookup({"good bad film": [0, 2], "[M] bad film": [0, -1], "good [M] film": [0, 5], "good bad [M]": [0, 2]})
    (attribution,) = troth.explain(model, "good bad film", "leave_one_out")
    full = torch.tensor([0.0, 2]).log_softmax(-1)[1]
    others = torch.tensor([[0.0, -1], [0, 5], [0, 2]]).log_softmax(-1)[:, 1]
    np.testing.assert_allclose(attribution.scores, (full - others).numpy(), atol=1e-5)
    assert attribution.scores[2] == 0


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("units", ["word", "token"])
def test_captum_ablates_the_same(family, units):
    model = encoder(family)
    asked = questions(family, units)
    for question, found in zip(asked, explained(LeaveOneOut(), asked, model), strict=True):
        encoding = question.encoding
        extra = {} if encoding.token_types is None else {"token_type_ids": encoding.token_types[None]}

        def forward(ids, extra=extra):
            with torch.no_grad():
                return model.model(input_ids=ids, **extra).logits

        groups = encoding.units[None] + 1  # 0 = the special tokens, which we never erase
        scores = FeatureAblation(forward).attribute(
            encoding.ids[None], baselines=model.mask_id, target=1, feature_mask=groups
        )[0]
        first = [int((encoding.units == unit).nonzero()[0]) for unit in range(encoding.n_units)]
        np.testing.assert_allclose(found.scores, scores[first].numpy(), atol=1e-4)


@pytest.mark.parametrize("of", ["probability", "log_probability"])
def test_plain_calls(of):
    model = encoder("bert")
    asked = questions()
    for question, found in zip(asked, explained(LeaveOneOut(of=of), asked, model), strict=True):
        full = value(model, question, [], of)
        expected = [full - value(model, question, [unit], of) for unit in range(question.n_units)]
        np.testing.assert_allclose(found.scores, expected, atol=1e-4)
