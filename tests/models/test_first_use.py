"""How a network reads is found out on first use; what it cannot do is said in one line before any text is read."""

import numpy as np
import pytest
import torch
from tokenizers import processors

import fakes
import troth
import zoo
from kinds import state_of
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.models import _first_use

TEXTS = ["a good film", "my new phone is fast , bright and a joy to use , why would anyone pay for this ?", "awful"]


def alone(model, explainer, **options):
    return [troth.explain(model, text, explainer, target=0, **options)[0].scores for text in TEXTS]


def together(model, explainer, **options):
    return [attribution.scores for attribution in troth.explain(model, TEXTS, explainer, target=0, **options)]


def logits(model, ids, **options):
    with torch.no_grad():
        return model.model(input_ids=ids[None], **options).logits[0]


@pytest.mark.parametrize("family", ["bert", "xlnet", "fnet", "longformer", "bart"])
def test_finding_out_leaves_the_model_as_it_was(family):
    network = zoo.network(family).train()
    before = state_of(network)
    model = troth.load_model(network, tokenizer=fakes.wordpiece())
    assert model.pads == zoo.FAMILIES[family].pads
    model.ready("embeddings", backward=True)
    assert state_of(network) == before


def test_padding_would_change_what_fnet_says(monkeypatch):
    monkeypatch.setattr(_first_use, "pads", lambda model: True)
    model = zoo.wrapped("fnet")
    pairs = zip(together(model, "leave_one_out"), alone(model, "leave_one_out"), strict=True)
    assert max(np.abs(one - other).max() for one, other in pairs) > 1e-3


def test_padding_that_does_harm_beyond_a_chunk_only_is_found():
    """Where all texts of the trial fit into one chunk of Reformer, those of a user need not."""
    network = zoo.network("reformer", local_attn_chunk_length=64, max_position_embeddings=256)
    assert troth.load_model(network, tokenizer=fakes.wordpiece(), max_length=64).pads
    assert not troth.load_model(network, tokenizer=fakes.wordpiece(), max_length=256).pads


def test_a_model_proves_itself_once_however_many_wrappers_it_has(monkeypatch):
    calls = []
    model = zoo.wrapped("fnet")
    forward = model.model.forward
    monkeypatch.setattr(model.model, "forward", lambda **inputs: calls.append(1) or forward(**inputs))
    assert not model.pads
    assert 0 < (count := len(calls)) <= 10
    assert not troth.load_model(model.model, tokenizer=model.tokenizer).pads
    assert len(calls) == count


def test_a_model_that_says_the_same_of_everything_has_proved_nothing():
    model = zoo.wrapped("fnet")
    with torch.no_grad():
        weight = model.model.classifier.weight.clone()
        model.model.classifier.weight.zero_()
        assert model.pads
        model.model.classifier.weight.copy_(weight)  # now it is trained
    assert not model.pads


def test_where_both_texts_are_cut_alike_nothing_is_padded():
    assert not troth.load_model(fakes.hf_model(), tokenizer=fakes.tokenizer_for("bert"), max_length=3).pads


def test_longformer_reads_word_vectors_as_it_reads_ids():
    model = zoo.wrapped("longformer")
    inputs = model.tokenizer(TEXTS[1], return_tensors="pt")
    with torch.no_grad():
        plain = model.model(**inputs).logits[0].softmax(-1).tolist()
    (attribution,) = troth.explain(model, TEXTS[1], "integrated_gradients(steps=100)", target=0)
    assert attribution.probabilities == pytest.approx(plain, abs=1e-6)
    assert abs(attribution.gap) < 0.02 * np.abs(attribution.scores).sum()


# A mask of ones and positions from ids


@pytest.mark.parametrize("family", ["xlm", "bert"])
def test_a_padding_token_in_the_text_is_read_where_a_mask_says_so(family):
    """XLM leaves padding out by its id, unless it is given a mask; BERT never does."""
    model = zoo.wrapped(family)
    assert model.call_convention.needs_mask == (family == "xlm")
    (encoding,) = model.encode([Example("0", "a good [PAD] film")])
    types = torch.zeros_like(encoding.ids)[None]
    given = logits(model, encoding.ids, token_type_ids=types, attention_mask=torch.ones_like(types))
    without = logits(model, encoding.ids, token_type_ids=types)
    assert torch.allclose(given, without) == (family == "bert")
    (attribution,) = troth.explain(model, encoding.example, "leave_one_out", masking="mask_token")
    assert attribution.probabilities == pytest.approx(given.softmax(-1).tolist(), abs=1e-6)


# Encoders with a decoder


@pytest.mark.parametrize("family", ["bart", "mbart", "t5"])
def test_an_end_token_that_a_user_typed_is_not_the_end(family):
    """A plain call refuses a batch whose rows have different numbers of them."""
    model = zoo.wrapped(family)
    text = "a good [SEP] film"
    (encoding,) = model.encode([Example("0", text)], "token")
    (attribution,) = troth.explain(model, text, "leave_one_out", units="token", target=0)
    whole = logits(model, encoding.ids)[0]
    for place, score in enumerate(attribution.scores, start=1):
        ids = encoding.ids.clone()
        ids[place] = model.mask_id
        assert score == pytest.approx(float(whole - logits(model, ids)[0]), abs=1e-5)


def test_mbart_reads_the_end_token_before_the_language():
    """Its texts end in </s> and a language; the language is what the decoder begins with."""
    tokenizer = fakes.wordpiece()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        "$A [SEP] [UNK]", None, [("[SEP]", 3), ("[UNK]", 1)]
    )
    model = troth.load_model(zoo.network("mbart"), tokenizer=tokenizer)
    assert (model.call_convention.reads, model.call_convention.decoder_start) == ("end", "last")
    (encoding,) = model.encode([Example("0", TEXTS[0])])
    assert encoding.ids[-2:].tolist() == [3, 1]
    with model.at_rest(attentions=True), torch.no_grad():
        output = model.model(input_ids=encoding.ids[None], output_attentions=True)
    (attribution,) = troth.explain(model, TEXTS[0], "attention")
    np.testing.assert_allclose(
        attribution.scores, encoding.per_unit(output.cross_attentions[-1][0].mean(0)[-2]).numpy(), atol=1e-6
    )
    assert attribution.probabilities == pytest.approx(output.logits[0].softmax(-1).tolist(), abs=1e-6)


def test_padding_as_a_masking_does_not_move_mbarts_beginning():
    """Its own way to find the language counts the tokens that are not padding."""
    model = zoo.wrapped("mbart")
    (encoding,) = model.encode([Example("0", TEXTS[0])])
    ids = encoding.ids.clone()
    ids[2] = 0
    begun = torch.cat([ids[-1:], ids[:-1]])[None]
    whole = logits(model, encoding.ids)[0]
    (attribution,) = troth.explain(model, TEXTS[0], "leave_one_out", masking="pad", target=0)
    assert attribution.scores[1] == pytest.approx(
        float(whole - logits(model, ids, decoder_input_ids=begun)[0]), abs=1e-5
    )
    assert attribution.scores[1] != pytest.approx(float(whole - logits(model, ids)[0]), abs=1e-4)


def test_a_decoder_without_a_way_to_pass_word_vectors_can_be_explained_by_erasing(monkeypatch):
    model = zoo.wrapped("bart")
    monkeypatch.setattr(model.model, "get_encoder", lambda: None)
    assert model.call_convention.decoder_start is None
    assert together(model, "leave_one_out")[0].any()
    with pytest.raises(TrothError) as caught:
        troth.explain(model, TEXTS[0], "gradient")
    assert "cannot read word vectors: Passing input embeddings is currently not supported" in str(caught.value)
    assert "use an explainer that only erases (leave_one_out" in str(caught.value)


# Word vectors and gradients


def test_word_vectors_that_say_something_else_than_their_ids_are_refused(monkeypatch):
    model = zoo.wrapped("bert")
    forward = model.model.forward

    def odd(**inputs):
        output = forward(**inputs)
        if inputs.get("inputs_embeds") is not None:
            output.logits = output.logits + 1
        return output

    monkeypatch.setattr(model.model, "forward", odd)
    assert together(model, "leave_one_out")[0].any()
    for explainer in ("gradient", "integrated_gradients"):
        with pytest.raises(TrothError, match="says other things of the word vectors of a text than of its ids; use an"):
            troth.explain(model, TEXTS[0], explainer)


def test_a_network_without_gradients_is_refused_in_one_line(monkeypatch):
    model = zoo.wrapped("bert")
    forward = model.model.forward
    monkeypatch.setattr(model.model, "forward", torch.no_grad()(lambda **inputs: forward(**inputs)))
    with pytest.raises(TrothError) as caught:
        troth.explain(model, TEXTS[0], "gradient")
    assert "(bert) gives no gradients: element 0 of tensors does not require grad" in str(caught.value)
    assert together(model, "leave_one_out", masking="zero")[0].any()


# Networks of one length


def of_one_length(monkeypatch, length):
    model = zoo.wrapped("bert", segment_length=length)
    forward = model.model.forward

    def strict(**inputs):
        read = inputs.get("input_ids", inputs.get("inputs_embeds"))
        if read.shape[1] != length:
            raise ValueError(f"cannot be cut into segments of {length}")
        return forward(**inputs)

    monkeypatch.setattr(model.model, "forward", strict)
    return model


def test_a_network_of_one_length_is_filled_up(monkeypatch):
    plain, model = zoo.wrapped("bert"), of_one_length(monkeypatch, 28)
    for explainer in ("leave_one_out", "gradient", "attention"):
        for one, other in zip(together(model, explainer), alone(plain, explainer), strict=True):
            np.testing.assert_allclose(one, other, atol=2e-6, rtol=1e-5)
    assert model.call_convention.width == 28
    with pytest.raises(TrothError, match=r"cannot read texts of 32 tokens, only of 28: load it with max_length=28$"):
        troth.explain(model, " ".join(["good"] * 30), "leave_one_out")


def test_a_model_of_one_length_that_takes_no_mask_is_refused_by_name_before_any_text_is_read():
    model = zoo.wrapped("nystromformer", segment_means_seq_len=16)
    with pytest.raises(TrothError) as caught:
        troth.explain(model, TEXTS, "leave_one_out")
    said = str(caught.value)
    if said.endswith("only of 16: load it with max_length=16"):
        pytest.skip("this version of transformers lets Nystromformer take a mask")
    assert said.startswith("NystromformerForSequenceClassification (nystromformer) cannot read texts of 3 tokens:")
    assert "; give load_model a function from texts to probabilities" in said
    assert "\n" not in said


def test_bigbird_keeps_its_sparse_attention_though_it_reads_short_texts_whole():
    model = zoo.wrapped("big_bird")
    first = alone(model, "leave_one_out")
    assert model.model.base_model.attention_type == "block_sparse"
    for one, other in zip(together(model, "leave_one_out"), first, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(TrothError, match="takes no additive attention mask; use masking zero, soft or delete"):
        troth.explain(model, TEXTS[0], "leave_one_out", masking="attention")


# Soft attention masks


def test_a_family_on_no_list_takes_an_attention_mask():
    """ERNIE's layers are BERT's: with the same weights both say the same of texts that are seen in part."""
    bert = zoo.wrapped("bert")
    from transformers import ErnieConfig, ErnieForSequenceClassification

    config = ErnieConfig(**{key: value for key, value in bert.model.config.to_dict().items() if key != "model_type"})
    network = ErnieForSequenceClassification(config).eval()
    weights = {name.replace("bert.", "ernie.", 1): weight for name, weight in bert.model.state_dict().items()}
    network.load_state_dict(weights, strict=False)
    ernie = troth.load_model(network, tokenizer=bert.tokenizer)
    for one, other in zip(
        alone(ernie, "leave_one_out", masking="attention"),
        alone(bert, "leave_one_out", masking="attention"),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=1e-6)
    assert np.abs(alone(ernie, "leave_one_out", masking="attention")[0]).max() > 1e-3
