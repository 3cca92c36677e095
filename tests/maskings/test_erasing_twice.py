"""A base erased one way, then units erased another way on top: the second erasure must not get lost."""

import pytest
import torch

from fakes import encoder
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import Probe
from troth.maskings.attention import Attention
from troth.maskings.delete import Delete
from troth.maskings.mask_token import MaskToken
from troth.maskings.pad import Pad
from troth.maskings.zero import Zero

MODEL = encoder("bert")


def logits(text, base, first, keep, second):
    (encoding,) = MODEL.encode([Example(id="a", text=text)])
    question = Question(encoding, target=0, base=torch.tensor(base), erased_by=first)

    def looking():
        return (yield Probe(question, torch.tensor([keep]), second))

    return Prober(MODEL).ask(looking()).logits


def by_hand(text, zero=(), mask=(), pad=(), delete=(), unseen=()):
    """One word a token: the word's place is its token's place less one."""
    (encoding,) = MODEL.encode([Example(id="a", text=text)])
    ids = encoding.ids.clone()
    ids[[place + 1 for place in mask]] = MODEL.mask_id
    ids[[place + 1 for place in pad]] = MODEL.pad_id
    vectors = MODEL.embed(ids).detach().clone()
    vectors[[place + 1 for place in zero]] = 0
    seen = torch.ones(len(ids), dtype=torch.long)
    seen[[place + 1 for place in unseen]] = 0
    stays = [place for place in range(len(ids)) if place - 1 not in delete]
    inputs = {"inputs_embeds": vectors[stays][None], "attention_mask": seen[stays][None]}
    return MODEL.model(**inputs, token_type_ids=encoding.token_types[stays][None]).logits.detach()


TEXT = "a good film with a cast"
BASE = [1.0, 0.0, 1.0, 1.0, 1.0, 1.0]
KEEP = [1.0, 1.0, 1.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (Zero(), MaskToken(), {"zero": [1], "mask": [3]}),
        (Zero(), Pad(), {"zero": [1], "pad": [3]}),
        (Zero(), Delete(), {"zero": [1], "delete": [3]}),
        (MaskToken(), Delete(), {"mask": [1], "delete": [3]}),
        (Delete(), Zero(), {"delete": [1], "zero": [3]}),
        (Attention(), Delete(), {"unseen": [1], "delete": [3]}),
        (Attention(), MaskToken(), {"unseen": [1], "mask": [3]}),
        (Delete(), Attention(), {"delete": [1], "unseen": [3]}),
        (Attention(), Attention(), {"unseen": [1, 3]}),
    ],
)
def test_both_erasures_are_seen(first, second, expected):
    found = logits(TEXT, BASE, first, KEEP, second)
    torch.testing.assert_close(found, by_hand(TEXT, **expected), atol=1e-5, rtol=1e-5)
    assert (found - logits(TEXT, BASE, first, [1.0] * 6, second)).abs().max() > 1e-4
