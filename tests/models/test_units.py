"""One assembly of units for every kind of model: by hand, and the same words whatever reads them."""

import numpy as np
import torch

import fakes
import troth
from troth.core.types import PROMPT, Encoding, Example
from troth.models._encoding import Units
from troth.salience import pieces

TEXT = "a good film , but slow . nobody should pay for this !"


def test_by_hand():
    units = Units("word", tokens=6, outside=PROMPT)
    units.add(0, "not bad", np.array([1, 2, 3]), [(0, 2), (2, 5), (5, 7)])  # the second token joins the first word
    units.add(2, "a shot", np.array([4]), [(0, 6)], whole=True)
    encoding = units.encoding(Example("0", "not bad"), torch.arange(6))
    assert encoding.units.tolist() == [PROMPT, 0, 0, 1, 2, PROMPT]
    assert encoding.unit_texts == ("not", "bad", "a shot")
    assert encoding.unit_spans == ((0, 3), (4, 7), (0, 6))
    assert encoding.unit_segments == (0, 0, 2)
    assert encoding.truncated == 0


def test_what_was_not_read_is_no_unit():
    cut = {}
    for kind in ("token", "word"):
        units = Units(kind, tokens=2)
        units.add(0, "one two three four", np.array([0, 1]), [(0, 3), (4, 6)], end=6, lost_tokens=5)
        cut[kind] = units
    assert (cut["word"].texts, cut["word"].truncated) == (["one", "two"], 2)  # half of "two" was read
    assert (cut["token"].texts, cut["token"].truncated) == (["one", "tw"], 5)


def test_every_kind_of_model_sees_the_same_words():
    kinds = {
        "encoder": fakes.encoder("roberta"),
        "prompted": fakes.prompted("gpt2"),
        "black box": troth.load_model(fakes.planted()),
    }
    for units in ("word", "sentence"):
        encodings = {kind: model.encode([Example("0", TEXT)], units)[0] for kind, model in kinds.items()}
        for encoding in encodings.values():
            assert encoding.unit_texts == encodings["black box"].unit_texts
            assert encoding.unit_spans == encodings["black box"].unit_spans
        assert [encoding.tokenized for encoding in encodings.values()] == [True, True, False]


def test_tokens_are_named_by_id_even_where_ids_count_up():
    # A tokenizer without special tokens may give a text the ids 0, 1, 2, which are also its units.
    count = torch.arange(3)
    encoding = Encoding(
        Example("0", "a b c"), count, count.clone(), ("a", "b", "c"), ((0, 1), (2, 3), (4, 5)), (0, 0, 0)
    )
    assert pieces(encoding)[1] == ["0", "1", "2"]
    (black_box,) = troth.load_model(fakes.planted()).encode([Example("0", "a b c")])
    assert pieces(black_box)[1] == ["a", "b", "c"]
