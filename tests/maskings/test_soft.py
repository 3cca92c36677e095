import pytest
import torch
from tests.maskings.by_hand import encoded, erased, plain, same

from fakes import encoder
from troth.core import draws
from troth.maskings.soft import Soft


def survivors(masking, row, size, keep):
    """[length, hidden] 1 where an element survives, drawn as the prober keys it."""
    encoding = encoded()
    spec = f"soft(at={masking.at!r})"
    key = draws.key(0, "0", "test", spec)
    drawn = draws.uniforms(draws.row_keys(key, torch.tensor([row])), len(encoding.ids) * size)
    share = encoding.per_token(torch.tensor([keep]))[0]
    return (drawn.view(-1, size) < share[:, None]).float()


def test_each_element_of_the_word_vector_survives_or_is_zero():
    encoding, model = encoded(), encoder("bert")
    keep = [[0.5, 0.0, 1.0, 0.25], [0.5, 0.0, 1.0, 0.25]]
    found = erased(Soft(), keep)
    for row in (0, 1):
        stays = survivors(Soft(), row, model.embedding_size, keep[row])
        assert (stays[encoding.units == 1] == 0).all()
        assert (stays[encoding.units == 2] == 1).all()
        assert (stays[encoding.units < 0] == 1).all()
        vectors = model.embed(encoding.ids).detach() * stays  # no rescaling of what survives
        same(found[row : row + 1], plain(vectors=vectors, types=encoding.token_types))
    assert not torch.allclose(found[0], found[1], atol=1e-3)  # a draw a row


def test_at_the_embedding_layers_output():
    encoding, model = encoded(), encoder("bert")
    masking, keep = Soft(at="embedding_output"), [0.5, 0.0, 1.0, 0.25]
    found = erased(masking, [keep])
    stays = survivors(masking, 0, model.embedding_output_size, keep)
    handle = model.model.bert.embeddings.register_forward_hook(lambda _module, _inputs, output: output * stays)
    try:
        same(found, plain(ids=encoding.ids, types=encoding.token_types))
    finally:
        handle.remove()
    assert not model.model.bert.embeddings._forward_hooks


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_as_many_elements_survive_as_the_score_says(share):
    drawn = draws.uniforms(draws.row_keys(draws.key(0, "0", "test", "soft"), torch.arange(200)), 200)
    assert float((drawn < share).float().mean()) == pytest.approx(share, abs=0.01)
