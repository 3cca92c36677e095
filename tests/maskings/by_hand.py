"""What the tests of maskings share: one example erased through the prober, and plain calls of the same model."""

import torch

from fakes import encoder
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import Probe

TEXT = "the soup was unkind"  # the last word is six tokens
PAIR = "is the film good ?"


def encoded(family="bert", text=TEXT, pair=PAIR, units="word"):
    (encoding,) = encoder(family).encode([Example("0", text, pair)], units)
    return encoding


def erased(masking, keep, family="bert", **options):
    """Logits of one row a keep. -> [rows, classes]"""
    encoding = encoded(family, **options)

    def looking():
        return (yield Probe(Question(encoding, 0), torch.tensor(keep), masking, purpose="test")).logits

    return Prober(encoder(family)).ask(looking())


def plain(family="bert", ids=None, vectors=None, types=None, **options):
    """One plain call of the transformers model."""
    inputs = {"input_ids": ids[None]} if vectors is None else {"inputs_embeds": vectors[None]}
    if types is not None:
        inputs["token_type_ids"] = types[None]
    with torch.no_grad():
        return encoder(family).model(**inputs, **options).logits


def same(one, other):
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
