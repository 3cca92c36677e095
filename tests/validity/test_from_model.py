import numpy as np
import pytest
import torch

from asking import Additive
from fakes import CORPUS, FAMILIES, encoder, planted
from troth.core import draws
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.engine.prober import Prober
from troth.models.bilstm_attention import BilstmAttentionConfig, BilstmAttentionForSequenceClassification
from troth.models.black_box import BlackBox
from troth.models.encoder import Encoder
from troth.validity.masf import MaSF

EXAMPLES = [
    Example(f"{turn}-{number}", " ".join(text.split()[turn:]))
    for turn in range(5)
    for number, text in enumerate(CORPUS)
]


def slow_view(model, encoding, masked, seed=0):
    """[layers, hidden], from the words: one input at a time, mask tokens put in by hand, a loop over positions."""
    ids = encoding.ids.clone()
    if masked:
        key = draws.key(seed, encoding.example.id, "masf", "")
        rate, *own = draws.uniforms(draws.row_keys(key, torch.arange(1)), 1 + encoding.n_units)[0].tolist()
        for position, unit in enumerate(encoding.units.tolist()):
            if unit >= 0 and own[unit] < rate:
                ids[position] = model.mask_id
    types = {} if encoding.token_types is None else {"token_type_ids": encoding.token_types[None]}
    with torch.no_grad():
        states = model.model(input_ids=ids[None], output_hidden_states=True, **types).hidden_states
    return np.stack([np.max([vector.numpy() for vector in layer[0]], axis=0) for layer in states])


def every_second(encodings, seed=0):
    """The half of the examples that comes first in a drawn order."""
    order = sorted(encodings, key=lambda encoding: draws.key(seed, encoding.example.id, "masf", "chosen"))
    return [encoding in order[: len(order) // 2] for encoding in encodings]


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_references_are_the_largest_hidden_states_of_inputs_of_which_every_second_is_masked(family, masked):
    model = encoder(family)
    encodings = model.encode(EXAMPLES, "token", "both")
    fitted = MaSF.from_model(Prober(model), encodings, masked)
    chosen = [masked and second for second in every_second(encodings)]
    pairs = zip(encodings, chosen, strict=True)
    slow = np.stack([slow_view(model, encoding, erased) for encoding, erased in pairs])  # [references, layers, hidden]
    assert [layer.shape for layer in fitted.embeddings] == 3 * [(16, len(EXAMPLES))]
    np.testing.assert_allclose(fitted.embeddings, np.sort(slow, axis=0).transpose(1, 2, 0), atol=1e-4)


def test_another_share_of_the_references_may_be_masked():
    model = encoder()
    encodings = model.encode(EXAMPLES, "token", "both")
    for share, masked in [(1.0, True), (0.0, False)]:
        fitted = MaSF.from_model(Prober(model), encodings, share=share)
        slow = np.stack([slow_view(model, encoding, masked) for encoding in encodings])
        np.testing.assert_allclose(fitted.embeddings, np.sort(slow, axis=0).transpose(1, 2, 0), atol=1e-4)


def test_masking_changes_the_references_and_the_seed_changes_the_masking():
    model = encoder()
    encodings = model.encode(EXAMPLES)
    fits = [MaSF.from_model(Prober(model), encodings, masked, seed).embeddings for masked, seed in
            [(True, 0), (True, 0), (True, 1), (False, 0)]]  # fmt: skip
    assert np.array_equal(fits[0], fits[1])
    assert not np.allclose(fits[0], fits[2], atol=1e-3)
    assert not np.allclose(fits[0], fits[3], atol=1e-3)


def test_batch_size_changes_nothing():
    model = encoder("roberta")
    encodings = model.encode(EXAMPLES)
    alone = Prober(model, memory=1)
    together = Prober(model)
    one, other = MaSF.from_model(alone, encodings), MaSF.from_model(together, encodings[::-1])
    assert alone.cost.batches > together.cost.batches
    np.testing.assert_allclose(one.embeddings, other.embeddings, atol=1.1e-4)
    # Noise may still carry a value over the edge of its rounding, but seldom.
    assert (np.stack(one.embeddings) == np.stack(other.embeddings)).mean() > 0.97


def test_the_model_is_left_as_it_was_and_nothing_is_kept():
    model = encoder()
    before = [len(module._forward_hooks) for module in model.model.modules()]
    prober = Prober(model)
    encodings = model.encode(EXAMPLES)
    MaSF.from_model(prober, encodings)
    assert [len(module._forward_hooks) for module in model.model.modules()] == before
    caches = prober._caches.values()
    assert not any(cache.inputs or cache.erased for cache in caches)


def test_what_cannot_be_tested_is_refused():
    model = encoder()
    encodings = model.encode(EXAMPLES)
    with pytest.raises(TrothError, match="needs 30 validation examples, but there are 29"):
        MaSF.from_model(Prober(model), encodings[:29])
    with pytest.raises(TrothError, match="not tested: under delete"):
        MaSF.from_model(Prober(model, "delete"), encodings)
    black_box = BlackBox(planted(), name="rule")
    with pytest.raises(TrothError, match=r"rule has no hidden states \(it is a black box\)"):
        MaSF.from_model(Prober(black_box), black_box.encode(EXAMPLES))
    silent = Additive({"good": 1.0})
    with pytest.raises(TrothError, match="additive has no hidden states"):
        MaSF.from_model(Prober(silent), silent.encode(EXAMPLES))


def test_layers_may_differ_in_size():
    tokenizer = encoder().tokenizer
    config = BilstmAttentionConfig(vocab_size=len(tokenizer), embedding_size=6, hidden_size=4, num_labels=2)
    model = Encoder(BilstmAttentionForSequenceClassification(config).eval(), tokenizer, name="tiny bilstm")
    encodings = model.encode(EXAMPLES)
    fitted = MaSF.from_model(Prober(model), encodings, masked=False)
    assert [len(layer) for layer in fitted.embeddings] == [6, 8]
    with torch.no_grad():
        states = [model.model(input_ids=one.ids[None], output_hidden_states=True).hidden_states for one in encodings]
    by_layer = [np.stack([layer[0].amax(0).numpy() for layer in each]) for each in zip(*states, strict=True)]
    for known, slow in zip(fitted.embeddings, by_layer, strict=True):
        np.testing.assert_allclose(known, np.sort(slow, axis=0).T, atol=1e-4)
    # Each layer alone, joined by hand: Simes within, Fisher between.
    alone = [MaSF.fit(layer[:, None]).layer_statistics for layer in by_layer]
    joined = MaSF.fit_layers(by_layer)
    np.testing.assert_array_equal(joined.layer_statistics, np.concatenate(alone))
    with pytest.raises(TrothError, match=r"2 layers of 6, the references 2 layers of 6, 8"):
        joined.p_values_of([by_layer[0], by_layer[0]])


def test_smallest_p_value_by_hand():
    # One hidden unit, references 1..9: beyond all of them, 0 two-sided; placed among their Simes statistics
    # (0 1 2 3 4 4 3 2 1, each with one more left out) it is the most unusual, and 1 / (9 + 1) remains.
    references = np.arange(1.0, 10.0).reshape(9, 1, 1)
    assert MaSF.fit(references, self_included=False).smallest >= 1 / 10
    assert MaSF.fit(references, over_hidden="fisher", self_included=False).smallest >= 1 / 10
    # As many hidden units as references, each reference the lowest in one: none is more unusual than another.
    everybody = np.where(np.eye(40, dtype=bool), -1.0, 1.0)[:, None, :]
    assert MaSF.fit(everybody).smallest == 1.0
