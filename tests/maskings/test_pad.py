import pytest
import torch
from tests.maskings.by_hand import encoded, erased, plain, same

from fakes import encoder
from troth.maskings.pad import Pad


@pytest.mark.parametrize(
    ("family", "first"), [("bert", None), ("distilbert", None), ("roberta", 2), ("xlm_roberta", 1)]
)
def test_tokens_become_padding_that_is_attended_to_and_nobody_moves(family, first):
    encoding, model = encoded(family), encoder(family)
    ids = encoding.ids.clone()
    ids[encoding.units == 1] = model.pad_id
    positions = {} if first is None else {"position_ids": (torch.arange(len(ids)) + first)[None]}
    attended = torch.ones(1, len(ids), dtype=torch.long)
    found = erased(Pad(), [[1.0, 0, 1, 1]], family)
    same(found, plain(family, ids, types=encoding.token_types, attention_mask=attended, **positions))


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_padding_in_the_text_is_told_from_padding_behind_it(family):
    keep = [[1.0, 0, 1, 1], [1.0, 1, 1, 0]]
    together = erased(Pad(), keep, family)
    for row, logits in zip(keep, together, strict=True):
        same(erased(Pad(), [row], family), logits[None])
    assert not torch.allclose(together[1], erased(Pad(), [[1.0] * 4], family)[0], atol=1e-3)
