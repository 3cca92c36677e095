"""Models that read padding are found out on first use; what a model cannot read is said in one line."""

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    BartConfig,
    BigBirdConfig,
    ConvBertConfig,
    FNetConfig,
    LongformerConfig,
    NystromformerConfig,
    T5Config,
    XLNetConfig,
)

import fakes
import troth
from kinds import state_of
from troth.core.errors import TrothError
from troth.models import _trial

TEXTS = ["a good film", "my new phone is fast , bright and a joy to use , why would anyone pay for this ?", "awful"]
SPECIAL = {"bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 3}  # [CLS] and [SEP]


def config(family):
    common = {"vocab_size": len(fakes.tokenizer_for("bert")), "num_labels": 3, "pad_token_id": 0}
    sizes = {**fakes.SIZES, **common}
    decoder = {f"{part}_{name}": 2 for part in ("encoder", "decoder") for name in ("layers", "attention_heads")}
    return {
        "xlnet": lambda: XLNetConfig(d_model=16, n_layer=2, n_head=2, d_inner=32, **common),
        "fnet": lambda: FNetConfig(
            hidden_size=16, num_hidden_layers=2, intermediate_size=32, max_position_embeddings=64, **common
        ),
        "convbert": lambda: ConvBertConfig(**sizes, embedding_size=16, head_ratio=2, conv_kernel_size=3),
        "longformer": lambda: LongformerConfig(**sizes, attention_window=8, sep_token_id=3),
        "nystromformer": lambda: NystromformerConfig(**sizes, segment_means_seq_len=16, num_landmarks=4),
        "bigbird": lambda: BigBirdConfig(**sizes, block_size=2, num_random_blocks=1),
        "bart": lambda: BartConfig(
            d_model=16, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=64, forced_eos_token_id=3,
            **decoder, **SPECIAL, **common,
        ),
        "t5": lambda: T5Config(d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, **SPECIAL, **common),
    }[family]()  # fmt: skip


def network(family):
    if family == "bert":
        return fakes.hf_model()
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config(family)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    return model


def wrapped(family):
    return troth.load_model(network(family), tokenizer=fakes.tokenizer_for("bert"))


def alone(model, explainer):
    return [troth.explain(model, text, explainer, target=0)[0].scores for text in TEXTS]


def together(model, explainer):
    return [attribution.scores for attribution in troth.explain(model, TEXTS, explainer, target=0)]


@pytest.mark.parametrize(
    ("family", "pads"), [("bert", True), ("xlnet", False), ("fnet", False), ("convbert", False), ("longformer", True)]
)
def test_in_company_as_alone(family, pads):
    model = wrapped(family)
    before = state_of(model.model)
    assert model.pads == pads
    assert state_of(model.model) == before
    for explainer in ("leave_one_out", "gradient"):
        for one, other in zip(together(model, explainer), alone(model, explainer), strict=True):
            np.testing.assert_allclose(one, other, atol=2e-6, rtol=1e-5)
    assert state_of(model.model) == before


def test_padding_would_change_what_xlnet_says(monkeypatch):
    monkeypatch.setattr(_trial, "pads", lambda model: True)
    model = wrapped("xlnet")
    pairs = zip(together(model, "leave_one_out"), alone(model, "leave_one_out"), strict=True)
    assert max(np.abs(one - other).max() for one, other in pairs) > 0.1


def test_a_model_proves_itself_once_however_many_wrappers_it_has(monkeypatch):
    calls = []
    model = wrapped("fnet")
    forward = model.model.forward
    monkeypatch.setattr(model.model, "forward", lambda **inputs: calls.append(1) or forward(**inputs))
    assert not model.pads
    assert len(calls) == 4  # two texts alone, then both together, as ids and as word vectors
    assert not troth.load_model(model.model, tokenizer=model.tokenizer).pads
    assert len(calls) == 4


def test_a_model_that_says_the_same_of_everything_has_proved_nothing():
    model = wrapped("fnet")
    with torch.no_grad():
        weight = model.model.classifier.weight.clone()
        model.model.classifier.weight.zero_()
        assert model.pads
        model.model.classifier.weight.copy_(weight)  # now it is trained
    assert not model.pads


def test_where_both_texts_are_cut_alike_nothing_is_padded():
    assert not troth.load_model(fakes.hf_model(), tokenizer=fakes.tokenizer_for("bert"), max_length=3).pads


def test_longformer_reads_word_vectors_as_it_reads_ids():
    model = wrapped("longformer")
    inputs = model.tokenizer(TEXTS[1], return_tensors="pt")
    with torch.no_grad():
        plain = model.model(**inputs).logits[0].softmax(-1).tolist()
    (attribution,) = troth.explain(model, TEXTS[1], "integrated_gradients(steps=100)", target=0)
    assert attribution.probabilities == pytest.approx(plain, abs=1e-6)
    assert abs(attribution.gap) < 0.02 * np.abs(attribution.scores).sum()
    with pytest.raises(TrothError, match="no attention weights from token to token to read; use gradient"):
        troth.explain(model, TEXTS[0], "attention")


@pytest.mark.parametrize("family", ["bart", "t5"])
def test_a_model_with_a_decoder_can_be_explained_by_erasing(family):
    model = wrapped(family)
    words = TEXTS[0].split()

    def logit(text):
        with torch.no_grad():
            return model.model(**_read(model, text)).logits[0, 0].item()

    expected = [
        logit(TEXTS[0]) - logit(" ".join("[MASK]" if place == gone else word for place, word in enumerate(words)))
        for gone in range(len(words))
    ]
    np.testing.assert_allclose(together(model, "leave_one_out")[0], expected, atol=1e-5)
    with pytest.raises(TrothError) as caught:
        troth.explain(model, TEXTS[0], "gradient")
    assert "cannot read word vectors: Passing input embeddings is currently not supported" in str(caught.value)
    assert "use an explainer that only erases (leave_one_out" in str(caught.value)
    assert "\n" not in str(caught.value)


def _read(model, text):
    inputs = model.tokenizer(text, return_tensors="pt")
    inputs.pop("token_type_ids")
    return inputs


def test_a_model_of_one_length_is_refused_by_name_before_any_text_is_read():
    model = wrapped("nystromformer")
    seen = []
    model.model.register_forward_pre_hook(lambda _module, _args, inputs: seen.append(inputs), with_kwargs=True)
    with pytest.raises(TrothError) as caught:
        troth.explain(model, TEXTS, "leave_one_out")
    said = str(caught.value)
    assert said.startswith("NystromformerForSequenceClassification (nystromformer) cannot read texts of 3 tokens:")
    assert "; give load_model a function from texts to probabilities" in said
    assert "\n" not in said
    assert len(seen) == 1  # the trial's own


def test_bigbird_keeps_its_sparse_attention_though_it_reads_short_texts_whole():
    model = wrapped("bigbird")
    first = alone(model, "leave_one_out")
    assert model.model.base_model.attention_type == "block_sparse"
    for one, other in zip(together(model, "leave_one_out"), first, strict=True):
        np.testing.assert_array_equal(one, other)
