"""The importance of every token of all texts, many at a time, is that of each text alone."""

import numpy as np
import pytest
import torch

from troth.core import catalog
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.studies._copies import Splits
from troth.studies.roar._importance import scores_of
from troth.training import bases

TEXTS = ["a good film", "", "the soup was cold and the film is good", "awful", "good good awful awful"]
MEASURES = [
    "attention", "gradient", "input_x_gradient", "integrated_gradients(steps=3, moves=all)", "random",
    "leave_one_out",
]  # fmt: skip


@pytest.fixture(scope="module")
def model():
    examples = [Example(str(number), text, label=number % 2) for number, text in enumerate(TEXTS)]
    return bases.build("bilstm_attention(embedding=4, hidden=3)").build(examples, ("no", "yes"), 0, None)


@pytest.mark.parametrize("masking", ["mask_token", "delete"])
@pytest.mark.parametrize("spec", MEASURES)
def test_scores(model, spec, masking):
    examples = [Example(str(number), text, label=number % 2) for number, text in enumerate(TEXTS)]
    encodings, method = model.encode(examples, units="token"), catalog.build("explainers", spec)
    sizes = np.array([encoding.n_units for encoding in encodings])
    assert sizes[1] == 0
    for left in (None, np.arange(sizes.sum()) % 3 != 1):
        alone, begin = [], 0
        for encoding, size in zip(encodings, sizes.tolist(), strict=True):
            question = Question(encoding, encoding.example.class_index, seed=5)
            if left is not None:
                base = torch.from_numpy(left[begin : begin + size].astype(np.float32))
                question = question.erased(base, catalog.build("maskings", masking))
            if size:
                alone.append(Prober(model, masking).ask(method.ask([question]))[0].scores)
            begin += size
        found = scores_of(method, Prober(model, masking, window=2), Splits(encodings, sizes, ()), left, 5)
        np.testing.assert_allclose(found, np.concatenate(alone), rtol=1e-4, atol=1e-6)
        assert np.abs(found).max() > 1e-5
