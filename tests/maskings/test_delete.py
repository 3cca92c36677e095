import numpy as np
import pytest
import torch
from tests.maskings.by_hand import encoded, erased, plain, same

from fakes import FAMILIES, encoder
from troth.core.types import Question
from troth.engine.asked_rows import AskedRows
from troth.engine.probes import LOGITS, Probe
from troth.engine.row_layout import RowLayout
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
    model, encoding = encoder(), encoded()
    keep = torch.tensor([[0.0] * 4, [1.0, 1, 1, 1], [1.0, 1, 1, 0]])
    tokens = int((encoding.units == 3).sum())
    assert tokens == 6
    asked = AskedRows([Probe(Question(encoding, 1), keep).batch()], (LOGITS, Delete(), None))
    layout = RowLayout(asked, np.arange(3), model)
    assert layout.order.tolist() == [0, 2, 1]
    assert layout.lengths.tolist() == [len(encoding.ids) - 9, len(encoding.ids) - 6, len(encoding.ids)]
    assert layout.rows(0, 1).ids.shape == (1, len(encoding.ids) - 9)
