from dataclasses import dataclass

import torch

from fakes import attribution_model, encoder
from troth.attribution_model.model import read
from troth.core import catalog
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import Probe, Reading, Readout

PAGES = []


@dataclass(frozen=True)
class Spy(Readout):
    """Notes what the attribution model would read of an erased input."""

    def read(self, model, rows):
        PAGES.append(read(attribution_model(), rows))
        return Reading(model.forward(rows).logits)


def test_what_is_erased_already_is_erased_for_the_attribution_model_too():
    model = encoder("bert")
    (encoding,) = model.encode([Example("0", "a good film")])

    def ask(question):
        return (yield Probe(question, torch.ones(1, 3), readout=Spy()))

    PAGES.clear()
    # Erased by the prober's own masking and by another: both ways through the engine.
    for masking in ("mask_token", "delete", "zero"):
        question = Question(encoding, 0).erased(torch.tensor([1.0, 0, 1]), catalog.build("maskings", masking))
        Prober(model, "mask_token").ask(ask(question))
    masked, deleted, zeroed = PAGES
    mask = model.tokenizer.mask_token_id
    assert masked.ids[0, 2] == zeroed.ids[0, 2] == mask
    assert bool(masked.real.all())
    assert deleted.real[0].tolist() == [True, True, False, True, True, True]
    assert deleted.ids[0, 2] != mask
    assert masked.present.tolist() == deleted.present.tolist() == zeroed.present.tolist() == [[True, False, True]]


def test_pairs_are_read_as_pairs_and_only_the_first_is_scored():
    model, own = encoder("bert"), attribution_model()
    (encoding,) = model.encode([Example("0", "the soup was cold", text_pair="is the film good ?")])
    PAGES.clear()

    def ask(question):
        return (yield Probe(question, torch.ones(1, 4), readout=Spy()))

    Prober(model).ask(ask(Question(encoding, 0)))
    (page,) = PAGES
    assert page.ids[0, :-1].tolist() == encoding.ids.tolist()
    assert page.types[0, :-1].tolist() == encoding.token_types.tolist()
    assert page.label[0].tolist() == [False] * len(encoding.ids) + [True]
    assert page.reach[0, :, 0].tolist() == [1, 2, 3, 4]
    assert own.max_length == 63  # one less than the backbone has positions for: the prediction takes one
