import pytest
import torch
from tests.maskings.by_hand import encoded, erased, plain, same

import troth
from fakes import encoder, planted
from troth.core.errors import TrothError
from troth.maskings.pad import Pad
from troth.maskings.token import Token

KEEP = [[1.0, 0, 1, 0]]


@pytest.mark.parametrize("number", [0, 7])
def test_a_units_tokens_become_the_token_of_that_id(number):
    encoding = encoded("bert")
    ids = torch.where(torch.isin(encoding.units, torch.tensor([1, 3])), number, encoding.ids)
    same(erased(Token(id=number), KEEP), plain("bert", ids, types=encoding.token_types))


def test_the_padding_id_shifts_no_position_of_a_roberta():
    same(erased(Token(id=encoder("roberta").pad_id), KEEP, "roberta"), erased(Pad(), KEEP, "roberta"))


def test_what_cannot_be():
    with pytest.raises(TrothError, match=r"token: tiny bert has the ids 0 to \d+; use one of them, not 99999"):
        erased(Token(id=99999), KEEP)
    attributions = troth.explain(planted(), "an awful film", "leave_one_out")
    with pytest.raises(TrothError, match=r"word vectors \(it is a black box\)"):
        troth.measure(planted(), attributions, "normalized_sufficiency(variant=released)")
