import pytest
import torch
from tests.maskings.by_hand import encoded, erased, plain, same

from fakes import FAMILIES, encoder
from troth.maskings.mask_token import MaskToken
from troth.maskings.mix import Mix
from troth.maskings.zero import Zero


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("reference", ["mask", "pad", "zero"])
def test_word_vectors_move_towards_the_reference(family, reference):
    encoding, model = encoded(family), encoder(family)
    vectors = model.embed(encoding.ids).detach().clone()
    matrix = model.embedding_matrix.detach()
    tokens = {"mask": model.mask_id, "pad": model.pad_id}
    end = torch.zeros(matrix.shape[1]) if reference == "zero" else matrix[tokens[reference]]
    vectors[encoding.units == 0] = 0.75 * vectors[encoding.units == 0] + 0.25 * end
    vectors[encoding.units == 3] = end
    found = erased(Mix(reference), [[0.75, 1, 1, 0]], family)
    same(found, plain(family, vectors=vectors, types=encoding.token_types))


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_at_its_ends_it_is_mask_token_and_zero(family):
    keep = [[1.0, 0, 1, 0]]
    same(erased(Mix("mask"), keep, family), erased(MaskToken(), keep, family))
    same(erased(Mix("zero"), keep, family), erased(Zero(), keep, family))
