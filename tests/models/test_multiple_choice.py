"""Multiple choice models: each choice is read behind the text, against loops over plain transformers."""

import numpy as np
import pytest
import torch

import fakes
import heads
import troth
from troth.core.errors import TrothError
from troth.models.multiple_choice import MultipleChoice

TEXT = "the soup was cold"
TOKENIZER = fakes.tokenizer_for("bert")


@torch.no_grad()
def logits(text):
    batch = TOKENIZER([text] * 3, list(heads.CHOICES), return_tensors="pt", padding=True)
    return heads.choice_network()(**{name: value[None] for name, value in batch.items()}).logits[0]


def test_leave_one_out_of_each_choice():
    model = heads.multiple_choice()
    assert (type(model), model.labels) == (MultipleChoice, heads.CHOICES)
    words = TEXT.split()
    erased = [" ".join(["[MASK]" if place == gone else word for place, word in enumerate(words)]) for gone in range(4)]
    whole, falls = logits(TEXT), torch.stack([logits(TEXT) - logits(text) for text in erased])
    for choice, found in enumerate(troth.explain(model, TEXT, "leave_one_out", target=list(heads.CHOICES))):
        np.testing.assert_allclose(found.scores, falls[:, choice], atol=2e-5)
        np.testing.assert_allclose(found.probabilities, whole.softmax(-1), atol=1e-6)
    (contrast,) = troth.explain(model, TEXT, "leave_one_out", target=0, against=2)
    np.testing.assert_allclose(contrast.scores, falls[:, 0] - falls[:, 2], atol=2e-5)


def test_gradients_add_up_over_the_path():
    (found,) = troth.explain(heads.multiple_choice(), TEXT, "integrated_gradients(steps=400, rule=gauss_legendre)")
    assert abs(found.gap) < 1e-2


def test_a_folder(tmp_path):
    heads.choice_network().save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    folder = troth.load_model(tmp_path, choices=list(heads.CHOICES))
    assert type(folder) is MultipleChoice
    assert troth.load_model(tmp_path, **folder.spec).fingerprint == heads.multiple_choice().fingerprint


@pytest.mark.parametrize("choices", [None, ["one"], "a,b", ["a", " "], ["a", "a"]])
def test_errors(choices):
    with pytest.raises(TrothError, match="choices"):
        troth.load_model(heads.choice_network(), tokenizer=TOKENIZER, choices=choices)
