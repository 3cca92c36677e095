import pytest
import torch

from fakes import CORPUS, encoder
from troth.core.types import Example
from troth.engine.prober import Prober
from troth.training.corpus import Corpus, batches, by_length, join

MODEL = encoder("bert")
EXAMPLES = [Example(str(i), text, "is it good ?") for i, text in enumerate(CORPUS)]
ENCODINGS = MODEL.encode(EXAMPLES, units="token", segments="both")


def rows(corpus, index):
    index = torch.tensor(index)
    return corpus.rows(index, torch.zeros(len(index), dtype=torch.int64), MODEL)


def test_rows_are_the_encodings_padded_to_the_longest_of_them():
    found = rows(Corpus(ENCODINGS, [0, 1, 2, 0, 1, 2, 0]), [3, 0, 3])
    lengths = [len(ENCODINGS[i].ids) for i in (3, 0, 3)]
    assert found.ids.shape == (3, max(lengths))
    assert found.lengths.tolist() == lengths
    assert found.target.tolist() == [0, 0, 0]
    for row, i in enumerate((3, 0, 3)):
        n = lengths[row]
        assert torch.equal(found.ids[row, :n], ENCODINGS[i].ids)
        assert torch.equal(found.units[row, :n], ENCODINGS[i].units)
        assert torch.equal(found.token_types[row, :n], ENCODINGS[i].token_types)
        assert found.ids[row, n:].tolist() == [MODEL.filler_id] * (found.ids.shape[1] - n)
        assert set(found.units[row, n:].tolist()) <= {-1}


@pytest.mark.parametrize("masking", ["mask_token", "delete", "pad", "zero"])
def test_erased_copies_are_what_the_prober_asks_about(masking):
    first_text = MODEL.encode(EXAMPLES, units="token")
    generator = torch.Generator().manual_seed(0)
    keeps = [torch.randint(0, 2, (one.n_units,), generator=generator).float() for one in first_text]
    corpus = Corpus(ENCODINGS, [0] * 7, masking).erased(keeps)
    with torch.no_grad():
        logits = MODEL.forward(rows(corpus, range(7))).logits
    from troth.core.types import Question
    from troth.engine.probes import Probe

    def ask(encoding, keep):
        answer = yield Probe(Question(encoding, 0), keep[None])
        return answer.logits[0]

    asks = (ask(encoding, keep) for encoding, keep in zip(first_text, keeps, strict=True))
    expected = torch.stack(list(Prober(MODEL, masking).run(asks)))
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)


def test_joined_corpora_keep_their_examples_and_what_is_left_of_them():
    plain = Corpus(ENCODINGS, [0] * 7)
    keeps = [torch.zeros(encoding.n_units) for encoding in ENCODINGS]
    joined, starts = join([plain, Corpus(ENCODINGS, [1] * 7).erased(keeps), plain])
    assert len(joined) == 14
    assert starts.tolist() == [0, 7, 0]
    found = rows(joined, [2, 7 + 2])
    assert torch.equal(found.ids[0], ENCODINGS[2].ids)
    assert found.target.tolist() == [0, 1]
    assert torch.equal(found.ids[1] == MODEL.mask_id, ENCODINGS[2].units >= 0)


def test_every_example_is_in_one_batch_an_epoch_with_others_about_as_long():
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(5, 200, (1030,), generator=generator)
    cut = batches(lengths, 16, seed=0, epoch=0)
    assert [len(batch) for batch in cut].count(16) == 64
    assert sorted(torch.cat(cut).tolist()) == list(range(1030))
    padded = sum(len(batch) * int(lengths[batch].max()) for batch in cut)
    assert padded < 1.15 * int(lengths.sum())
    assert not torch.equal(torch.cat(batches(lengths, 16, seed=0, epoch=1)), torch.cat(cut))
    assert torch.equal(torch.cat(batches(lengths, 16, seed=0, epoch=0)), torch.cat(cut))


def test_seeds_meet_other_examples_but_batches_of_the_same_length_at_the_same_time():
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(5, 200, (1030,), generator=generator)
    one, other = (batches(lengths, 16, seed, 0) for seed in (0, 1))
    assert [len(batch) for batch in one] == [len(batch) for batch in other]
    assert not any(set(a.tolist()) == set(b.tolist()) for a, b in zip(one, other, strict=True))
    apart = [abs(float(lengths[a].max() - lengths[b].max())) for a, b in zip(one, other, strict=True)]
    assert sum(apart) / len(apart) < 10  # of 195


def test_by_length_leaves_nothing_out():
    assert by_length(torch.tensor([], dtype=torch.int64), 4) == []
    assert sorted(torch.cat(by_length(torch.tensor([3, 1, 2, 9, 9]), 2)).tolist()) == [0, 1, 2, 3, 4]
