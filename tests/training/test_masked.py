from collections import Counter

import numpy as np
import pytest
import torch
from scipy import stats

from fakes import CORPUS, encoder, tokenizer_for
from troth.core import draws
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.models.encoder import Encoder
from troth.training import recipes
from troth.training.corpus import Corpus
from troth.training.recipes.masked import Masked

MODEL = encoder("bert")


def corpus(texts, copies=1, model=MODEL):
    examples = [Example(f"{i}-{copy}", *text) for i, text in enumerate(texts) for copy in range(copies)]
    return Corpus(model.encode(examples, units="token", segments="both"), [0] * len(examples))


def erased(recipe, data, *, seed=0, epoch=0, place=None, index=None):
    """[rows, length] True where the recipe has put a mask token, and the rows before."""
    index = torch.arange(len(data)) if index is None else index
    before = data.rows(index, data.keys(seed, "training", epoch)[index], MODEL)
    place = torch.arange(len(index)) if place is None else place
    after = recipe.rows(before, place, len(index), MODEL)
    assert bool(((after.ids == before.ids) | (after.ids == MODEL.mask_id)).all())
    return after.ids != before.ids, before


def test_how_many_tokens_go_is_uniform_on_0_to_n():
    data = corpus([("a good film with a great cast", "is it good ?")], copies=6000)
    gone, before = erased(Masked(train="masking"), data)
    n = data.encodings[0].n_units
    assert n == 11  # both texts
    counts = Counter(gone.sum(1).tolist())
    observed = [counts[k] for k in range(n + 1)]
    assert stats.chisquare(observed).pvalue > 0.001
    # Each token goes as often as any other.
    each = gone[:, before.units[0] >= 0].float().mean(0)
    assert each.numpy() == pytest.approx(np.full(n, 0.5), abs=0.03)


def test_a_wrong_way_of_masking_would_be_noticed():
    generator = np.random.default_rng(0)
    counts = np.bincount(generator.binomial(11, 0.5, 6000), minlength=12)
    assert stats.chisquare(counts).pvalue < 1e-6


def test_special_tokens_and_padding_never_go():
    data = corpus([("a good film", "is it good ?"), ("dull", "why"), (CORPUS[0], CORPUS[1])], copies=300)
    for recipe in (Masked(train="masking"), Masked().final()["all_masked"]):
        gone, before = erased(recipe, data)
        special = torch.isin(before.ids, torch.tensor(MODEL.tokenizer.all_special_ids)) | ~before.real
        assert int(special.sum()) > 2000
        assert not bool((gone & special).any())
    assert bool((gone | special).all())  # all_masked leaves nothing else


def test_every_second_row_of_the_mini_batch_is_masked_in_the_paper_and_the_second_half_in_the_released_code():
    data = corpus([(CORPUS[0],)], copies=400)
    touched = {}
    for variant in ("paper", "released"):
        gone, _ = erased(Masked(variant=variant), data)
        touched[variant] = gone.any(1)
    assert not bool(touched["paper"][0::2].any())
    assert touched["paper"][1::2].float().mean() > 0.85  # a rate near 0 touches nothing
    assert not bool(touched["released"][:200].any())
    assert touched["released"][200:].float().mean() > 0.85


def test_a_device_that_holds_part_of_the_mini_batch_masks_the_rows_that_are_its_own():
    data = corpus([(CORPUS[0],)], copies=8)
    whole, _ = erased(Masked(), data)
    index = torch.arange(4, 8)
    keys = data.keys(0, "training", 0)
    part = Masked().rows(data.rows(index, keys[index], MODEL), torch.arange(4, 8), 8, MODEL)
    alone, _ = data.rows(index, keys[index], MODEL), None
    assert torch.equal(part.ids != alone.ids, whole[4:])


def test_masks_belong_to_example_and_epoch_not_to_the_company():
    data = corpus([(text,) for text in CORPUS], copies=3)
    everywhere = torch.zeros(len(data), dtype=torch.int64) + 1
    first, _ = erased(Masked(), data, place=everywhere)
    shuffled = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    again, _ = erased(Masked(), data, index=shuffled[:5], place=everywhere[:5])
    assert torch.equal(again, first[shuffled[:5], : again.shape[1]])
    other, _ = erased(Masked(), data, place=everywhere, epoch=1)
    assert not torch.equal(other, first)


def test_the_strategies_of_the_ablation():
    data = corpus([(CORPUS[0],)], copies=50)
    assert not bool(erased(Masked(train="no"), data)[0].any())
    assert erased(Masked(train="masking"), data)[0].any(1).float().mean() > 0.85
    assert [*Masked().validation()] == ["unmasked", "masked"]
    assert [*Masked(validate="no").validation()] == ["unmasked"]
    assert [*Masked(validate="masking").validation()] == ["masked"]
    assert [*Masked().final()] == ["unmasked", "masked", "all_masked"]


def test_other_ways_to_erase():
    data = corpus([(CORPUS[0],)], copies=4)
    index = torch.arange(4)
    before = data.rows(index, data.keys(0, "training", 0), MODEL)
    rows = recipes.build("masked(train=masking, masking=delete)").rows(before, index, 4, MODEL)
    hidden = Masked(train="masking").rows(before, index, 4, MODEL)
    assert rows.lengths.tolist() == (before.real & (hidden.ids == before.ids)).sum(1).tolist()
    zeroed = recipes.build("masked(train=masking, masking=zero)").rows(before, index, 4, MODEL)
    assert torch.equal((zeroed.embeddings == 0).all(-1) & before.real, hidden.ids != before.ids)


def test_a_base_without_mask_token_is_refused_with_the_way_out():
    tokenizer = type(tokenizer_for("bert"))(
        tokenizer_object=tokenizer_for("bert")._tokenizer, pad_token="[PAD]", unk_token="[UNK]"
    )
    model = Encoder(MODEL.model, tokenizer, name="maskless")
    with pytest.raises(TrothError, match=r"maskless has no mask token.*masked\(masking=delete\)"):
        recipes.build("masked").prepare(model, [])
    recipes.build("masked(masking=delete)").prepare(model, [])


def test_recipes_compose():
    recipe = recipes.build("masked(validate=masking) + plain")
    assert recipes.spec(recipe) == "masked(validate='masking') + plain"
    assert [*recipe.validation()] == ["masked"]
    for other in ("masked(validate=masking) + salience", "salience + masked(validate=masking)"):
        assert [*recipes.build(other).validation()] == ["masked"]  # as told, whatever the company
        assert [*recipes.build(other).final()] == ["unmasked", "masked", "all_masked"]
    assert [*recipes.build("salience + plain").validation()] == ["unmasked"]
    data = corpus([(CORPUS[0],)], copies=10)
    assert torch.equal(erased(recipe, data)[0], erased(Masked(), data)[0])
    with pytest.raises(TrothError, match="no recipe is called 'mask'; did you mean masked"):
        recipes.build("plain + mask")


def test_keys_differ_between_examples():
    data = corpus([(CORPUS[0],)], copies=1000)
    assert len(set(data.keys(0, "training", 0).tolist())) == 1000
    assert draws.uniforms(data.keys(0, "training", 0), 1).mean() == pytest.approx(0.5, abs=0.03)
