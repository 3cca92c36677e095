import pytest
from tests.maskings.by_hand import encoded, erased, plain, same

from fakes import FAMILIES, encoder
from troth.maskings.zero import Zero


@pytest.mark.parametrize("family", FAMILIES)
def test_word_vectors_are_scaled_and_nothing_else(family):
    encoding, model = encoded(family), encoder(family)
    vectors = model.embed(encoding.ids).detach().clone()
    vectors[encoding.units == 1] = 0
    vectors[encoding.units == 3] *= 0.3
    found = erased(Zero(), [[1.0, 0, 1, 0.3]], family)
    same(found, plain(family, vectors=vectors, types=encoding.token_types))
