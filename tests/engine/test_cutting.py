"""How the prober cuts rows into batches."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import troth
from fakes import encoder, planted
from troth.core.types import Question
from troth.engine.asked_rows import AskedRows, group_of
from troth.engine.prober import Prober
from troth.engine.probes import LOGITS, Probe
from troth.maskings.zero import Zero


def cut(lengths, memory, worth, pads=True, tokens=None):
    prober = Prober(encoder(), memory=memory)
    prober.tokens = tokens

    class Model:
        padding_worth = worth
        packs = False

        def bytes_per_row(self, length, *, backward, attentions):
            return length

    prober.model = Model()
    prober.model.pads = pads
    ordered = np.sort(np.array(lengths))
    return [ordered[start:stop].tolist() for start, stop in prober._cut(ordered, LOGITS)]


def test_by_hand():
    # 100 tokens a batch; three rows of 10 grow to 12 for 6 tokens of padding, to 30 for 54.
    assert cut([10, 10, 10, 12], 100, 6) == [[10, 10, 10, 12]]
    assert cut([10, 10, 10, 12], 100, 5) == [[10, 10, 10], [12]]
    assert cut([10, 10, 10, 30], 100, 1000) == [[10, 10, 10], [30]]  # four rows of 30 do not fit
    assert cut([10, 10, 30], 100, 1000) == [[10, 10, 30]]
    assert cut([500], 100, 0) == [[500]]  # too long for the budget, but it must go somewhere
    assert cut([7, 7, 8], 100, 1000, pads=False) == [[7, 7], [8]]
    # On a GPU a batch has so many tokens at most, however much memory there is.
    assert cut([10] * 5, 1000, 0, tokens=25) == [[10, 10], [10, 10], [10]]
    assert cut([10, 30], 1000, 0, tokens=25) == [[10], [30]]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=80),
    st.integers(1, 500),
    st.sampled_from([0, 8, 32, 4096]),
)
def test_every_row_once_within_memory(lengths, memory, worth):
    batches = cut(lengths, memory, worth)
    assert [length for batch in batches for length in batch] == sorted(lengths)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(batch) <= memory
        for place in range(1, len(batch)):
            assert place * (batch[place] - batch[place - 1]) <= worth


def test_a_callable_is_asked_as_seldom_as_can_be():
    calls = []

    def predict(texts):
        calls.append(len(texts))
        return planted("awful")(texts)

    model = troth.load_model(predict, labels=["fine", "bad"])
    texts = [" ".join(["awful"] * count) for count in (1, 5, 30)]
    troth.explain(model, texts, "leave_one_out", masking="delete")
    assert len(calls) == 2  # the class of each, then everything else


@pytest.mark.parametrize("values", [(0.0, 1.0), (0.0, 0.5, 1.0)])
@pytest.mark.parametrize("n_units", [4, 70])  # a row's name is a number up to 64 units
def test_repeated_rows_are_found(values, n_units):
    generator = torch.Generator().manual_seed(0)
    keep = torch.tensor(values)[torch.randint(len(values), (100, n_units), generator=generator)]
    keep = torch.cat([keep, keep[::2]])
    model = troth.load_model(planted("awful"), labels=["fine", "bad"])
    (encoding,) = model.encode([troth.Example("0", " ".join(["good"] * n_units))])
    probe = Probe(Question(encoding, 0), keep, Zero()).batch()
    distinct, _ = AskedRows([probe], group_of(probe, Zero())).distinct()
    assert len(distinct) == len({tuple(row) for row in keep.tolist()})
