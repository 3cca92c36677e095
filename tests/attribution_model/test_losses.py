import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.attribution_model.batches import rows_of

from fakes import encoder
from troth.attribution_model.losses import (
    DualMask,
    dual_logits,
    inverse_loss,
    prediction_loss,
    repeated,
    sparsity_loss,
)
from troth.core.errors import TrothError
from troth.core.types import Example, Rows
from troth.models import Output
from troth.models.black_box import BlackBox


def test_losses_by_hand():
    # F said 0.8, 0.2 of the whole text; of the masked one 0.5, 0.5; of the inversely masked one 0.75, 0.25.
    told = torch.tensor([[0.8, 0.2]])
    masked, inverted = torch.zeros(1, 2), torch.tensor([[math.log(3), 0.0]])
    assert prediction_loss(masked, told).item() == pytest.approx(math.log(2))
    assert inverse_loss(inverted, torch.tensor([0])).item() == pytest.approx(-math.log(0.25))
    assert inverse_loss(inverted, torch.tensor([0]), "probability").item() == pytest.approx(0.75)
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert inverse_loss(inverted, torch.tensor([0]), "negative_entropy").item() == pytest.approx(-entropy)
    # Two units with a = 0.5 and 0.75; the third is padding.
    scores = torch.tensor([[0.0, math.log(3), 9.0]])
    present = torch.tensor([[True, True, False]])
    assert sparsity_loss(scores, present).item() == pytest.approx(-(math.log(0.5) + math.log(0.25)) / 2)
    assert sparsity_loss(scores, present, "l1").item() == pytest.approx((0.5 + 0.75) / 2)


def test_a_sure_model_gives_a_finite_loss_that_points_the_right_way():
    logits = torch.tensor([[200.0, 0.0]], requires_grad=True)
    loss = inverse_loss(logits, torch.tensor([0]))
    assert loss.item() == pytest.approx(-math.log(1e-30), rel=1e-5)  # 1 − p is smaller than 1e-30
    sure = torch.tensor([[40.0, 0.0]], requires_grad=True)
    loss = inverse_loss(sure, torch.tensor([0]))
    assert loss.item() == pytest.approx(40, rel=1e-4)  # −log(1 − p) = 40, though 1 − p is 0 in single precision
    loss.sum().backward()
    torch.testing.assert_close(sure.grad, torch.tensor([[1.0, -1.0]]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_both_masks_are_mixed_by_hand(family):
    model = encoder(family)
    rows = rows_of(model, ["a good film", "the soup was cold and awful"])
    torch.manual_seed(0)
    keep = torch.rand(2, max(encoding.n_units for encoding in rows.encodings))
    masked, inverted = dual_logits(model, rows, keep)
    mask = model.embedding_matrix[model.mask_id]
    for row, encoding in enumerate(rows.encodings):
        for found, share in ((masked[row], keep[row]), (inverted[row], 1 - keep[row])):
            vectors = []
            for token, unit in zip(encoding.ids.tolist(), encoding.units.tolist(), strict=True):
                a = 1.0 if unit < 0 else share[unit]  # special tokens are whole in both
                vectors.append(a * model.embedding_matrix[token] + (1 - a) * mask)
            expected = model.model(inputs_embeds=torch.stack(vectors)[None]).logits[0]
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_the_whole_loss_against_its_formula():
    model = encoder("bert")
    rows = rows_of(model, ["a good film", "why would anyone pay for this ?"])
    torch.manual_seed(1)
    scores = torch.randn(2, max(encoding.n_units for encoding in rows.encodings))
    present = torch.zeros_like(scores, dtype=torch.bool)
    told = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    for row, encoding in enumerate(rows.encodings):
        present[row, : encoding.n_units] = True
    found = DualMask(prediction=0.3, sparsity=0.5, inverse=0.9)(model, rows, scores, present, told)
    masked, inverted = (logits.detach().double().softmax(-1) for logits in dual_logits(model, rows, scores.sigmoid()))
    for row, encoding in enumerate(rows.encodings):
        a = scores[row, : encoding.n_units].double().sigmoid()
        cross = -sum(float(told[row, j]) * math.log(masked[row, j]) for j in range(3))
        away = -math.log(1 - float(inverted[row, int(told[row].argmax())]) + 1e-30)
        sparse = -sum(math.log(1 - float(one)) for one in a) / len(a)
        assert found[row].item() == pytest.approx(0.3 * cross + 0.5 * sparse + 0.9 * away, rel=1e-4)


def test_the_prompt_is_whole_in_both_masks():
    class Counting(BlackBox):
        """Answers how much is kept of each token: the first word vector component of a mix of 1 and 0."""

        mask_id = 1
        embedding_matrix = torch.tensor([[1.0], [0.0]])

        def embed(self, ids):
            return self.embedding_matrix[ids]

        def forward(self, rows):
            return Output(rows.embeddings[..., 0])

    encoding = encoder("bert").encode([Example("0", "good film")], "token")[0]
    rows = Rows(
        [encoding], torch.zeros(1, 4, dtype=torch.int64), torch.tensor([[-1, -1, 0, 1]]), torch.tensor([4]),
        torch.tensor([-1]), torch.tensor([-1]), torch.tensor([0]),
    )  # fmt: skip
    masked, inverted = dual_logits(Counting(None), rows, torch.tensor([[0.25, 1.0]]))
    assert masked.tolist() == [[1, 1, 0.25, 1]]
    assert inverted.tolist() == [[1, 1, 0.75, 0]]


def test_a_negative_weight_is_refused():
    with pytest.raises(TrothError, match="0 or more"):
        DualMask(prediction=-1)


def test_repeated_rows_ask_no_device_for_their_lengths():
    rows = rows_of(encoder(), ["good film", "a bad film"])
    known = rows.lengths.numpy()
    assert known[0] < known[1]
    unknowable = torch.zeros_like(rows.lengths)  # what the device would say
    told = replace(rows, lengths=unknowable, width=int(known.max()), is_even=False, lengths_after=known)
    assert repeated(told, 3).known_lengths == np.tile(known, 3).tolist()
