"""Bi-encoders: the cosine of two embeddings is explained, against loops over plain transformers."""

import json

import numpy as np
import pytest
import torch

import fakes
import heads
import troth
from troth.core.errors import TrothError
from troth.models.similarity import Similarity

PAIR = ("a good film with unlovable cast", "the book was better")
TOKENIZER = fakes.tokenizer_for("bert")


@torch.no_grad()
def embedding(ids, pooling="mean"):
    states = heads.sentence_network()(input_ids=torch.tensor([ids])).last_hidden_state[0].double()
    return {"mean": states.mean(0), "cls": states[0], "max": states.amax(0)}[pooling]


def cosine(first, second, pooling="mean"):
    one, other = embedding(first, pooling), embedding(second, pooling)
    return float(one @ other / (one.norm() * other.norm()))


def without_each(text, spans, delete=False):
    batch = TOKENIZER(text, return_offsets_mapping=True)
    for start, end in spans:
        inside = [begin >= start and stop <= end and stop > begin for begin, stop in batch["offset_mapping"]]
        pairs = zip(batch["input_ids"], inside, strict=True)
        yield [TOKENIZER.mask_token_id if gone else number for number, gone in pairs if not (gone and delete)]


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("masking", ["mask_token", "delete"])
def test_words_of_both_texts(pooling, masking):
    (found,) = troth.explain(heads.similarity(pooling), [PAIR], "leave_one_out", segments="both", masking=masking)
    first, second = (TOKENIZER(text)["input_ids"] for text in PAIR)
    whole, spans = cosine(first, second, pooling), found.spans
    expected = [
        whole - cosine(ids, second, pooling) for ids in without_each(PAIR[0], spans[:6], masking == "delete")
    ] + [whole - cosine(first, ids, pooling) for ids in without_each(PAIR[1], spans[6:], masking == "delete")]
    assert found.units == (*PAIR[0].split(), *PAIR[1].split())
    assert found.probabilities == pytest.approx([whole], abs=1e-6)
    np.testing.assert_allclose(found.scores, expected, atol=2e-6)
    (alone,) = troth.explain(heads.similarity(pooling), [PAIR], "leave_one_out", masking=masking)
    np.testing.assert_allclose(alone.scores, expected[:6], atol=2e-6)


def test_gradients_of_the_cosine():
    (found,) = troth.explain(heads.similarity(), [PAIR], "input_x_gradient", segments="both", units="token")
    network, vectors, pooled = heads.sentence_network(), [], []
    for text in PAIR:
        ids = torch.tensor([TOKENIZER(text)["input_ids"]])
        vectors.append(network.get_input_embeddings()(ids).detach().requires_grad_())
        pooled.append(network(inputs_embeds=vectors[-1]).last_hidden_state.mean(1))
    torch.cosine_similarity(*pooled).sum().backward()
    expected = torch.cat([(each.grad * each).sum(-1)[0, 1:-1] for each in vectors]).detach()
    np.testing.assert_allclose(found.scores, expected, rtol=1e-4, atol=1e-6)


def sentence_folder(path, pooling, *more):
    heads.sentence_network().save_pretrained(path)
    TOKENIZER.save_pretrained(path)
    kinds = ["Transformer", "Pooling", *more]
    modules = [
        {"idx": place, "path": f"{place}_{kind}" if place else "", "type": f"sentence_transformers.models.{kind}"}
        for place, kind in enumerate(kinds)
    ]
    (path / "modules.json").write_text(json.dumps(modules))
    (path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 12}))
    (path / "1_Pooling").mkdir()
    (path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return path


def test_a_folder_of_sentence_transformers(tmp_path):
    pooling = {"word_embedding_dimension": 16, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    folder = sentence_folder(tmp_path / "cls", pooling, "Normalize")
    model = troth.load_model(folder)
    assert (type(model), model.pooling, model.max_length) == (Similarity, "cls", 12)
    (found,) = troth.explain(model, [PAIR], "leave_one_out")
    (same,) = troth.explain(heads.similarity("cls"), [PAIR], "leave_one_out")
    np.testing.assert_allclose(found.scores, same.scores, atol=1e-6)
    both = sentence_folder(tmp_path / "both", {**pooling, "pooling_mode_mean_tokens": True})
    with pytest.raises(TrothError, match="its states are pooled by cls and mean; supported are mean, cls, max"):
        troth.load_model(both)
    dense = sentence_folder(tmp_path / "dense", pooling, "Dense")
    with pytest.raises(TrothError, match="is made of Transformer, Pooling, Dense"):
        troth.load_model(dense)


def test_errors_and_refusals():
    with pytest.raises(TrothError, match=r"example 0 is one text; .* compares two texts: pass a text_pair as well"):
        troth.explain(heads.similarity(), "alone", "leave_one_out")
    with pytest.raises(TrothError, match="pooling must be one of mean, cls, max, not 'sum'"):
        troth.load_model(heads.sentence_network(), tokenizer=TOKENIZER, pooling="sum")
    with pytest.raises(TrothError, match="which reads two texts apart"):
        troth.explain(heads.similarity(), [PAIR], "attention")
