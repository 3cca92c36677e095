import pytest
import torch
from tests.maskings.by_hand import encoded, erased, plain, same

from fakes import FAMILIES
from troth.maskings.delete import Delete


@pytest.mark.parametrize("family", FAMILIES)
def test_the_row_is_that_of_the_shorter_text(family):
    """Words deleted by hand and tokenized again: the same as never having written them."""
    encoding, shorter = encoded(family), encoded(family, text="the was")
    found = erased(Delete(), [[1.0, 0, 1, 0]], family)
    stays = (encoding.units != 1) & (encoding.units != 3)
    assert encoding.ids[stays].tolist() == shorter.ids.tolist()
    same(found, plain(family, shorter.ids, types=shorter.token_types))


def test_all_deleted_leaves_the_special_tokens_and_the_second_text():
    encoding = encoded()
    found = erased(Delete(), [[0.0] * 4])
    same(found, plain(ids=encoding.ids[encoding.units < 0], types=encoding.token_types[encoding.units < 0]))
    alone = encoded(pair=None)
    special = alone.ids[[0, -1]]
    same(erased(Delete(), [[0.0] * 4], pair=None), plain(ids=special, types=torch.zeros_like(special)))


def test_rows_of_all_lengths_share_a_batch():
    keep = [[1.0, 1, 1, 1], [0.0, 0, 0, 0], [1.0, 1, 1, 0], [0.0, 0, 0, 1]]
    together = erased(Delete(), keep)
    for row, logits in zip(keep, together, strict=True):
        same(erased(Delete(), [row]), logits[None])


def test_lengths_are_known_before():
    encoding = encoded()
    keep = torch.tensor([[1.0, 1, 1, 1], [1.0, 1, 1, 0], [0.0] * 4])
    tokens = int((encoding.units == 3).sum())
    assert tokens == 6
    assert Delete().lengths(encoding, keep).tolist() == [
        len(encoding.ids),
        len(encoding.ids) - 6,
        len(encoding.ids) - 9,
    ]
