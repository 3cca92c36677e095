"""A probe in parts gives the numbers of the probe as a whole."""

import pytest
import torch

from fakes import encoder, planted
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import LOGITS, Probe
from troth.explainers._gradient_readout import GradientReadout
from troth.models.black_box import BlackBox
from troth.serve import parts


@pytest.fixture
def prober():
    return Prober(encoder("bert", classes=2), "zero", memory=1)  # one row is more than that


def asked(probe):
    answer = yield probe
    return answer


@pytest.mark.parametrize("readout", [LOGITS, GradientReadout(l1=True)])
@pytest.mark.parametrize("others", [None, torch.tensor([1.0, 0.5, 1.0, 0.0, 1.0])])
def test_the_parts_are_the_whole(prober, readout, others):
    (encoding,) = prober.model.encode([Example("0", "a good film")], "word", "first")
    keep = torch.tensor([[1, 1, 1], [0, 1, 1], [1, 0.5, 1], [0, 0, 0], [1, 1, 1]])
    probe, sizes = Probe(Question(encoding, target=1), keep, readout=readout, non_unit_keep=others), []
    (joined,) = prober.ask(parts.in_parts([probe.batch()], prober, sizes.append))
    whole = Prober(prober.model, "zero").ask(asked(probe))
    assert sizes == [1] * 5
    assert torch.allclose(joined.logits, whole.logits, atol=1e-5)
    for kind in ("units", "rest", "rows"):
        assert getattr(joined, kind).keys() == getattr(whole, kind).keys()
        for name, values in getattr(whole, kind).items():
            assert torch.allclose(getattr(joined, kind)[name], values, atol=1e-5)


def sizes_of(probe, prober):
    sizes = []
    prober.ask(parts.in_parts([probe.batch()], prober, sizes.append))
    return sizes


def test_what_is_drawn_by_row_stays_whole(prober):
    (encoding,) = prober.model.encode([Example("0", "a good film")], "word", "first")
    probe = Probe(Question(encoding, target=1), torch.rand(5, 3))
    assert sizes_of(probe, Prober(prober.model, "soft", memory=1)) == [5]
    assert sizes_of(probe, prober) == [1] * 5


def test_a_model_that_takes_little_memory_is_asked_a_few_hundred_rows_at_a_time():
    model = BlackBox(planted(), labels=["no", "yes"])
    (encoding,) = model.encode([Example("0", "a b c d e f g h i j")], "word", "first")
    keep = (torch.arange(1000)[:, None] >> torch.arange(10)) % 2
    assert sizes_of(Probe(Question(encoding, target=1), keep), Prober(model, "delete")) == [256, 256, 256, 232]
