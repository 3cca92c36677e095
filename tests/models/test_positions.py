"""Positions count tokens, whatever the text holds; max_length is what the user says."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, MPNetConfig

import fakes
import troth
from troth.core.errors import TrothError
from troth.core.types import Example


def mpnet():
    tokenizer = fakes.tokenizer_for("roberta")
    torch.manual_seed(0)
    config = MPNetConfig(**fakes.SIZES, vocab_size=len(tokenizer), num_labels=3, pad_token_id=tokenizer.pad_token_id)
    network = AutoModelForSequenceClassification.from_config(config).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)  # so that positions matter
    return troth.load_model(network, tokenizer=tokenizer)


@pytest.mark.parametrize("family", ["roberta", "xlm_roberta", "mpnet"])
def test_a_padding_token_in_the_text_shifts_nobody(family):
    model = mpnet() if family == "mpnet" else fakes.encoder(family)
    text = f"a good {model.tokenizer.pad_token} film"
    (encoding,) = model.encode([Example("0", text)])
    assert model.tokenizer.pad_token_id in encoding.ids.tolist()
    count = len(encoding.ids)
    with torch.no_grad():
        inputs = {"input_ids": encoding.ids[None], "attention_mask": torch.ones(1, count)}
        first = model.tokenizer.pad_token_id + 1
        right = model.model(**inputs, position_ids=torch.arange(first, first + count)[None]).logits[0]
        shifted = model.model(**inputs).logits[0]
    assert (right - shifted).abs().max() > 1e-4
    (attribution,) = troth.explain(model, text, "leave_one_out")
    assert attribution.probabilities == pytest.approx(right.softmax(-1).tolist(), abs=1e-6)
    # The same word vectors give the same, though no id comes with them.
    by_vectors = troth.explain(model, text, "leave_one_out", masking="mix")[0].scores
    np.testing.assert_allclose(attribution.scores, by_vectors, atol=1e-5)


def test_a_decoder_reads_the_last_token_even_if_that_is_a_padding_token():
    tokenizer = fakes.tokenizer_for("roberta")
    network = fakes.causal_model("llama", head=True, vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id)
    model = troth.load_model(network, tokenizer=tokenizer)
    (encoding,) = model.encode([Example("0", f"a good film{tokenizer.pad_token}")], "token")
    assert int((encoding.units >= 0).sum()) == encoding.n_units
    with torch.no_grad():
        states = network.model(input_ids=encoding.ids[None]).last_hidden_state
        right = network.score(states[0, -1])
    (attribution,) = troth.explain(model, encoding.example, "leave_one_out")
    assert attribution.probabilities == pytest.approx(right.softmax(-1).tolist(), abs=1e-6)
    assert network.config.pad_token_id == tokenizer.pad_token_id


def test_max_length_is_what_the_user_says_up_to_the_models_positions():
    tokenizer = fakes.wordpiece()
    tokenizer.model_max_length = 16
    text = " ".join(["book"] * 100)

    def lengths(**options):
        model = troth.load_model(fakes.hf_model(), tokenizer=tokenizer, **options)
        (encoding,) = model.encode([Example("0", text)])
        return model.max_length, len(encoding.ids), encoding.truncated

    assert lengths() == (16, 16, 86)
    assert lengths(max_length=8) == (8, 8, 94)
    assert lengths(max_length=40) == (40, 40, 62)  # more than the tokenizer would
    assert lengths(max_length=64) == (64, 64, 38)
    for given in (65, 0, -3):
        with pytest.raises(TrothError) as caught:
            lengths(max_length=given)
        assert str(caught.value) == (
            f"max_length must be a number from 1 to 64, not {given}: BertForSequenceClassification has 64 positions"
        )
    with pytest.raises(TrothError, match="from 1 to 62, not 64"):  # two of RoBERTa's are for padding
        troth.load_model(fakes.hf_model("roberta"), tokenizer=fakes.tokenizer_for("roberta"), max_length=64)


def test_without_a_limit_of_the_models_own_max_length_holds():
    from transformers import XLNetConfig

    config = XLNetConfig(d_model=16, n_layer=1, n_head=2, d_inner=32, vocab_size=200, num_labels=2)
    network = AutoModelForSequenceClassification.from_config(config).eval()
    assert troth.load_model(network, tokenizer=fakes.wordpiece(), max_length=700).max_length == 700
