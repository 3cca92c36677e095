"""Texts that are tokenized together are encoded as each would be alone, also where some are cut."""

import pytest
import torch

import fakes
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.core.units import word_spans
from troth.models._encoding import encode

TEXTS = [
    "a good film",
    "",
    "the soup was cold and the film is good and my new phone is fast",
    "awful",
    "a - joy , 3.5 !",
]
FIELDS = ("unit_texts", "unit_spans", "unit_segments", "truncated", "unit_kind")


@pytest.mark.parametrize("units", ["word", "token", "sentence"])
@pytest.mark.parametrize("segments", ["first", "both"])
@pytest.mark.parametrize("max_length", [14, 64])
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_together_as_alone(family, units, segments, max_length):
    tokenizer = fakes.tokenizer_for(family)
    examples = [Example(str(number), text) for number, text in enumerate(TEXTS)]
    examples += [Example(f"pair {number}", text, "the film") for number, text in enumerate(TEXTS)]
    together = encode(tokenizer, examples, units, segments, max_length)
    for example, encoding in zip(examples, together, strict=True):
        (alone,) = encode(tokenizer, [example], units, segments, max_length)
        assert encoding.example is example
        assert all(getattr(encoding, name) == getattr(alone, name) for name in FIELDS)
        assert torch.equal(encoding.ids, alone.ids)
        assert torch.equal(encoding.units, alone.units)
        assert (encoding.token_types is None) == (alone.token_types is None)


def test_a_cut_text_by_hand():
    tokenizer = fakes.tokenizer_for("bert")
    text = "the soup was cold and the film is good"
    whole, cut = (encode(tokenizer, [Example("0", text)], "word", "first", length)[0] for length in (64, 6))
    assert cut.unit_texts == ("the", "soup", "was", "cold")
    assert cut.truncated == len(word_spans(text)) - 4 == 5
    assert cut.ids.tolist() == [*whole.ids[:5].tolist(), int(whole.ids[-1])]
    assert cut.units.tolist() == [-1, 0, 1, 2, 3, -1]


def test_of_many_the_one_without_room_is_named():
    tokenizer = fakes.tokenizer_for("bert")
    examples = [Example("first", "a good film"), Example("second", "good", "the soup was cold and good")]
    with pytest.raises(TrothError, match="example second: the second text and the special tokens take 9 of 6 tokens"):
        encode(tokenizer, examples, "word", "first", 6)
