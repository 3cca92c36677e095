import numpy as np
import pytest
import torch
from tests.explainers.referees import Formula, explained, questions, total
from transformers import GPT2Config, GPT2ForSequenceClassification

import troth
from fakes import FAMILIES, encoder, tokenizer_for
from troth.core.errors import TrothError
from troth.explainers.attention import Attention
from troth.models.bilstm_attention import BilstmAttentionConfig, BilstmAttentionForSequenceClassification
from troth.models.encoder import Encoder
from troth.training.vocabulary import word_tokenizer


def test_by_hand():
    # One query, as a BiLSTM has it: a softmax over [CLS] 0, good ln 3, film ln 4, [SEP] 0, so over 1 + 3 + 4 + 1.
    model = Formula({"good": np.log(3), "film": np.log(4)}, total)
    (attribution,) = troth.explain(model, "good film", "attention")
    assert attribution.scores == pytest.approx([3 / 9, 4 / 9])
    assert attribution.rest == pytest.approx(2 / 9)
    assert not attribution.signed


@pytest.mark.parametrize("family", FAMILIES)
def test_is_what_transformers_gives(family):
    model = encoder(family)
    asked = questions(family)
    for question, attribution in zip(asked, explained(Attention(), asked, model), strict=True):
        encoding = question.encoding
        types = {} if encoding.token_types is None else {"token_type_ids": encoding.token_types[None]}
        with model.at_rest(attentions=True), torch.no_grad():
            weights = model.model(input_ids=encoding.ids[None], output_attentions=True, **types).attentions[-1]
        expected = np.zeros(question.n_units)
        rest = 0.0
        for token, unit in enumerate(encoding.units.tolist()):
            weight = float(weights[0, :, 0, token].mean())
            rest += weight if unit < 0 else 0
            if unit >= 0:
                expected[unit] += weight
        assert attribution.scores == pytest.approx(expected, abs=1e-6)
        assert attribution.rest == pytest.approx(rest, abs=1e-6)
        assert attribution.scores.sum() + attribution.rest == pytest.approx(1, abs=1e-5)


def test_a_decoder_reads_its_last_position():
    tokenizer = tokenizer_for("bert")
    torch.manual_seed(0)
    config = GPT2Config(
        n_embd=16,
        n_layer=2,
        n_head=2,
        vocab_size=len(tokenizer),
        num_labels=2,
        n_positions=64,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
    )
    model = Encoder(GPT2ForSequenceClassification(config).eval(), tokenizer, name="tiny gpt2")
    attributions = troth.explain(model, ["a good film", "not a bad book ,"], "attention", units="token")
    for attribution in attributions:
        encoding = attribution.question.encoding
        with model.at_rest(attentions=True), torch.no_grad():
            weights = model.model(
                input_ids=encoding.ids[None], token_type_ids=encoding.token_types[None], output_attentions=True
            ).attentions[-1][0]
        assert attribution.scores == pytest.approx(weights.mean(0)[-1, 1:-1].numpy(), abs=1e-6)
        assert attribution.rest > 0  # the first position would put all its weight on itself


def test_a_black_box_refuses():
    with pytest.raises(TrothError, match="no attentions"):
        troth.explain(lambda texts: [[0.5, 0.5]] * len(texts), "good film", "attention")


def test_a_bilstm_has_one_query():
    texts = ["a good film with a great cast", "not a bad book"]
    tokenizer = word_tokenizer(texts)
    torch.manual_seed(0)
    config = BilstmAttentionConfig(vocab_size=len(tokenizer), embedding_size=7, hidden_size=4, num_labels=2)
    model = Encoder(BilstmAttentionForSequenceClassification(config).eval(), tokenizer, name="tiny bilstm")
    for text, attribution in zip(texts, troth.explain(model, texts, "attention"), strict=True):
        ids = tokenizer(text, return_tensors="pt")
        weights = model.model(**ids, output_attentions=True).attentions[-1]
        inside = attribution.question.encoding.units >= 0
        assert attribution.scores == pytest.approx(weights[0, 0, 0][inside].detach().numpy(), abs=1e-6)
        assert attribution.scores.sum() + attribution.rest == pytest.approx(1, abs=1e-6)
    (product,) = troth.explain(model, texts[0], "attention_x_gradient", target=1)
    output = model.model(**tokenizer(texts[0], return_tensors="pt"), output_attentions=True)
    (slope,) = torch.autograd.grad(output.logits[0, 1], output.attentions[-1])
    inside = product.question.encoding.units >= 0
    expected = (output.attentions[-1] * slope)[0, 0, 0][inside].detach().numpy()
    assert product.scores == pytest.approx(expected, abs=1e-6)
