import pytest
import torch
from tests.maskings.by_hand import encoded, erased, plain, same

from fakes import FAMILIES, encoder
from troth.maskings.mask_token import MaskToken


@pytest.mark.parametrize("family", FAMILIES)
def test_every_token_of_a_unit_becomes_the_mask_token(family):
    encoding, model = encoded(family), encoder(family)
    ids = encoding.ids.clone()
    ids[(encoding.units == 1) | (encoding.units == 3)] = model.mask_id
    found = erased(MaskToken(), [[1.0, 0, 1, 0]], family)
    same(found, plain(family, ids, types=encoding.token_types))
    assert int((ids == model.mask_id).sum()) > 2  # a word of several tokens keeps its length


def test_all_erased_leaves_masks_between_the_special_tokens():
    encoding, model = encoded(), encoder("bert")
    ids = torch.where(encoding.units >= 0, model.mask_id, encoding.ids)
    same(erased(MaskToken(), [[0.0] * 4]), plain(ids=ids, types=encoding.token_types))
    assert model.tokenizer.decode(ids[-7:]) == "[SEP] is the film good ? [SEP]"
