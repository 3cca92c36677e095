import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import troth
from troth.core.types import Example
from troth.models.bilstm_attention import BilstmAttentionConfig, BilstmAttentionForSequenceClassification
from troth.models.encoder import Encoder
from troth.training.vocabulary import word_tokenizer

TEXTS = ["a good film with a great cast", "not a bad book , but dull", "is it good ?", "who is bad"]


def model(*, pair=False, shared_embedding=True, seed=0, classes=3, first_attended_id=3):
    tokenizer = word_tokenizer(TEXTS)
    config = BilstmAttentionConfig(
        vocab_size=len(tokenizer), embedding_size=7, hidden_size=4, pair=pair, shared_embedding=shared_embedding,
        num_labels=classes, first_attended_id=first_attended_id,
    )  # fmt: skip
    torch.manual_seed(seed)
    network = BilstmAttentionForSequenceClassification(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2)  # so that every input matters
    return Encoder(network.eval(), tokenizer, name="tiny bilstm")


def weights(network):
    return {name: value.detach().numpy().astype(np.float64) for name, value in network.state_dict().items()}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(w, prefix, vectors, suffix=""):
    """States of one direction, step by step."""
    hidden = cell = np.zeros(w[f"{prefix}.weight_hh_l0{suffix}"].shape[1])
    states = []
    for vector in vectors:
        gates = w[f"{prefix}.weight_ih_l0{suffix}"] @ vector + w[f"{prefix}.bias_ih_l0{suffix}"]
        gates = gates + w[f"{prefix}.weight_hh_l0{suffix}"] @ hidden + w[f"{prefix}.bias_hh_l0{suffix}"]
        into, forget, new, out = np.split(gates, 4)
        cell = sigmoid(forget) * cell + sigmoid(into) * np.tanh(new)
        hidden = sigmoid(out) * np.tanh(cell)
        states.append(hidden)
    return np.array(states)


def bilstm(w, prefix, vectors):
    forwards = lstm(w, prefix, vectors)
    backwards = lstm(w, prefix, vectors[::-1], "_reverse")[::-1]
    return np.concatenate([forwards, backwards], axis=1), np.concatenate([forwards[-1], backwards[0]])


def twin(network, first, second=None, attended=range(3, 10**6)):
    """Logits and attention straight from the paper's formulas; [PAD], [CLS] and [EOS], ids 0 to 2, have no part."""
    w = weights(network)
    embedding = w["bilstm.embeddings.word_embeddings.weight"]
    states, _ = bilstm(w, "bilstm.first", embedding[first])
    inner = states @ w["bilstm.attention.states.weight"].T
    if second is None:
        inner = inner + w["bilstm.attention.states.bias"]
    else:
        other = w.get("bilstm.second_embeddings.word_embeddings.weight", embedding)
        _, query = bilstm(w, "bilstm.second", other[second])
        inner = inner + w["bilstm.attention.query.weight"] @ query
    scores = np.tanh(inner) @ w["bilstm.attention.score.weight"][0]
    scores = np.exp(scores) * [token in attended for token in first]
    alpha = scores / scores.sum()
    context = alpha @ states
    if second is not None:
        context = np.tanh(
            w["decoder.context.weight"] @ context
            + w["decoder.context.bias"]
            + w["decoder.query.weight"] @ query
            + w["decoder.query.bias"]
        )
    return w["decoder.output.weight"] @ context + w["decoder.output.bias"], alpha


def test_single_form_is_the_papers_formula_row_by_row_though_padded_together():
    bilstm_model = model()
    batch = bilstm_model.tokenizer(TEXTS[:3], padding=True, return_tensors="pt")
    output = bilstm_model.model(**batch, output_attentions=True, output_hidden_states=True)
    for row, length in enumerate(batch["attention_mask"].sum(1).tolist()):
        logits, alpha = twin(bilstm_model.model, batch["input_ids"][row, :length].numpy())
        np.testing.assert_allclose(output.logits[row].detach(), logits, atol=1e-6)
        np.testing.assert_allclose(output.attentions[0][row, 0, 0, :length].detach(), alpha, atol=1e-6)
        assert output.attentions[0][row, 0, 0, length:].abs().sum() == 0
    assert [state.shape[-1] for state in output.hidden_states] == [7, 8]


@pytest.mark.parametrize("shared", [True, False])
def test_pair_form_reads_each_text_with_its_own_lstm(shared):
    bilstm_model = model(pair=True, shared_embedding=shared)
    batch = bilstm_model.tokenizer(TEXTS[:2], TEXTS[2:], padding=True, return_tensors="pt")
    output = bilstm_model.model(**batch, output_attentions=True)
    for row in range(2):
        real, types = batch["attention_mask"][row].bool(), batch["token_type_ids"][row]
        first, second = (batch["input_ids"][row][real & (types == text)].numpy() for text in (0, 1))
        assert first[0] == second[0] == 1  # [CLS] begins
        assert first[-1] == second[-1] == 2  # [EOS] ends both
        logits, alpha = twin(bilstm_model.model, first, second)
        np.testing.assert_allclose(output.logits[row].detach(), logits, atol=1e-6)
        np.testing.assert_allclose(output.attentions[0][row, 0, 0, : len(first)].detach(), alpha, atol=1e-6)


@pytest.mark.parametrize("pair", [False, True])
def test_a_text_without_words_is_attended_to_at_its_special_tokens_and_padding_changes_nothing(pair):
    bilstm_model = model(pair=pair)
    second = [1, 6, 7, 2] if pair else []
    ids = torch.tensor([[1, 2, *second, 0, 0, 0], [1, 8, 9, 5, 2, *second]])
    types = torch.tensor([[0, 0, *[1] * len(second), 0, 0, 0], [*[0] * 5, *[1] * len(second)]])
    mask = torch.tensor([[1] * (2 + len(second)) + [0] * 3, [1] * (5 + len(second))])
    output = bilstm_model.model(ids, attention_mask=mask, token_type_ids=types, output_attentions=True)
    logits, alpha = twin(bilstm_model.model, np.array([1, 2]), np.array(second) if pair else None, attended=(1, 2))
    np.testing.assert_allclose(output.logits[0].detach(), logits, atol=1e-6)
    np.testing.assert_allclose(output.attentions[0][0, 0, 0, :2].detach(), alpha, atol=1e-6)
    assert output.attentions[0][0, 0, 0, 2:].abs().sum() == 0


def test_folders_from_before_attend_to_begin_and_end_as_they_were_trained_to(tmp_path):
    old, new = model(first_attended_id=0), model()
    for name, one in (("old", old), ("new", new)):
        one.model.save_pretrained(tmp_path / name)
        one.tokenizer.save_pretrained(tmp_path / name)
    config = tmp_path / "old" / "config.json"
    known = json.loads(config.read_text())
    known.pop("first_attended_id", None)  # such folders do not have it
    config.write_text(json.dumps(known))
    ids = np.array(old.tokenizer(TEXTS[0])["input_ids"])
    for name, attended in (("old", range(10**6)), ("new", range(3, 10**6))):
        loaded = troth.load_model(str(tmp_path / name))
        found = loaded.model(torch.tensor(ids[None]), output_attentions=True)
        logits, alpha = twin(loaded.model, ids, attended=attended)
        np.testing.assert_allclose(found.logits[0].detach(), logits, atol=1e-6)
        np.testing.assert_allclose(found.attentions[0][0, 0, 0].detach(), alpha, atol=1e-6)


def test_tokens_may_stand_anywhere_left_padding_included():
    network = model().model
    right = network(input_ids=torch.tensor([[1, 6, 7, 2, 0, 0]]), attention_mask=torch.tensor([[1, 1, 1, 1, 0, 0]]))
    left = network(input_ids=torch.tensor([[0, 0, 1, 6, 7, 2]]), attention_mask=torch.tensor([[0, 0, 1, 1, 1, 1]]))
    torch.testing.assert_close(left.logits, right.logits)


@pytest.mark.parametrize("shared", [True, False])
def test_word_vectors_given_for_ids_change_nothing(shared):
    bilstm_model = model(pair=True, shared_embedding=shared)
    (encoding,) = bilstm_model.encode([Example("0", TEXTS[0], TEXTS[2])])
    attributions = {
        masking: troth.explain(bilstm_model, encoding.example, "leave_one_out", masking=masking, target=0)[0].scores
        for masking in ("mask_token", "mix")
    }
    # The mask token's id and its word vector are the same thing, whichever way they come in.
    np.testing.assert_allclose(attributions["mask_token"], attributions["mix"], atol=1e-6)


@pytest.mark.parametrize("pair", [False, True])
def test_explainers_treat_it_as_any_model(pair):
    bilstm_model = model(pair=pair)
    example = Example("0", TEXTS[0], TEXTS[2] if pair else None)
    words = TEXTS[0].split()
    found = {
        name: troth.explain(bilstm_model, example, name, target=1)[0]
        for name in ("random", "gradient", "input_x_gradient", "integrated_gradients(steps=400)", "leave_one_out")
    }
    assert all(attribution.units == tuple(words) for attribution in found.values())

    def logit(text):
        texts = [text, TEXTS[2]] if pair else [text]
        return bilstm_model.model(**bilstm_model.tokenizer(*texts, return_tensors="pt")).logits[0, 1].item()

    without = [
        logit(" ".join(["[MASK]" if j == i else word for j, word in enumerate(words)])) for i in range(len(words))
    ]
    expected = np.array([logit(TEXTS[0]) - value for value in without])
    np.testing.assert_allclose(found["leave_one_out"].scores, expected, atol=1e-5)
    assert abs(found["integrated_gradients(steps=400)"].gap) < 0.01 * abs(logit(TEXTS[0]))
    # By finite differences: x ⊙ gradient is how fast the logit grows as the word's vector does.
    embedding = bilstm_model.model.get_input_embeddings()
    inputs = bilstm_model.tokenizer(*([TEXTS[0], TEXTS[2]] if pair else [TEXTS[0]]), return_tensors="pt")
    ids = inputs.pop("input_ids")
    vectors = embedding(ids).detach()
    for place in (1, 3):
        grown = [vectors.clone() for _ in range(2)]
        for sign, one in zip((1, -1), grown, strict=True):
            one[0, place] *= 1 + sign * 1e-2
        up, down = (bilstm_model.model(ids, inputs_embeds=one, **inputs).logits[0, 1].item() for one in grown)
        assert found["input_x_gradient"].scores[place - 1] == pytest.approx((up - down) / 2e-2, abs=2e-4)


def test_attention_and_its_gradient_by_hand():
    bilstm_model = model()
    ids = bilstm_model.tokenizer(TEXTS[0])["input_ids"]
    w = weights(bilstm_model.model)
    _, alpha = twin(bilstm_model.model, np.array(ids))
    states, _ = bilstm(w, "bilstm.first", w["bilstm.embeddings.word_embeddings.weight"][ids])
    (attended,) = troth.explain(bilstm_model, TEXTS[0], "attention", target=1)
    np.testing.assert_allclose(attended.scores, alpha[1:-1], atol=1e-6)
    assert attended.scores.sum() == pytest.approx(1)  # [CLS] and [EOS] get nothing
    assert attended.rest == pytest.approx(0, abs=1e-6)
    (weighed,) = troth.explain(bilstm_model, TEXTS[0], "attention_x_gradient(of=logit)", target=1)
    # The logit is linear in α: its gradient is what the decoder makes of each state.
    np.testing.assert_allclose(weighed.scores, (alpha * (states @ w["decoder.output.weight"][1]))[1:-1], atol=1e-6)


def test_the_recurrent_layer_alone_is_in_training_mode_and_only_while_gradients_are_wanted():
    network, seen = model().model, []
    network.bilstm.first.register_forward_pre_hook(lambda module, _: seen.append(("before", module.training)))
    original = torch.nn.LSTM.forward

    def spy(self, *inputs):
        seen.append(("inside", self.training))
        return original(self, *inputs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.LSTM, "forward", spy)
        network(input_ids=torch.tensor([[1, 5, 2]]))
        with torch.no_grad():
            network(input_ids=torch.tensor([[1, 5, 2]]))
    assert seen == [("before", False), ("inside", True), ("before", False), ("inside", False)]
    assert not any(module.training for module in network.modules())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gradients_in_evaluation_mode_on_a_gpu():
    bilstm_model = model()
    expected = troth.explain(bilstm_model, TEXTS[0], "input_x_gradient", target=0)[0].scores
    bilstm_model.model.cuda()
    found = troth.explain(bilstm_model, TEXTS[0], "input_x_gradient", target=0)[0].scores
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.full
def test_a_saved_folder_loads_in_a_fresh_process(tmp_path):
    bilstm_model = model(pair=True)
    bilstm_model.model.save_pretrained(tmp_path)
    bilstm_model.tokenizer.save_pretrained(tmp_path)
    script = """
import json, sys, torch, troth
model = troth.load_model(sys.argv[1], device="cpu")
(encoding,) = model.encode([troth.Example("0", "a good film", "who is bad")])
from transformers import AutoModelForSequenceClassification, AutoTokenizer
plain = AutoModelForSequenceClassification.from_pretrained(sys.argv[1])
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
print(json.dumps(plain(**tokenizer("a good film", "who is bad", return_tensors="pt")).logits[0].tolist()))
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    batch = bilstm_model.tokenizer("a good film", "who is bad", return_tensors="pt")
    expected = bilstm_model.model(**batch).logits[0].tolist()
    assert json.loads(done.stdout.strip().splitlines()[-1]) == pytest.approx(expected, abs=1e-6)


def test_what_it_cannot_do_it_says():
    network = model(pair=True).model
    with pytest.raises(ValueError, match="token_type_ids"):
        network(input_ids=torch.tensor([[1, 5, 2]]))
    copies = model(pair=True, shared_embedding=False).model
    single = model().model
    for one, types in ((copies, torch.tensor([[0, 0, 1]])), (single, None)):
        with pytest.raises(ValueError, match="needs input_ids beside"):
            one(inputs_embeds=torch.zeros(1, 3, 7), token_type_ids=types)


def test_all_masked_and_all_deleted_inputs_are_defined():
    bilstm_model = model(pair=True)
    example = Example("0", TEXTS[0], TEXTS[2])
    for masking in ("mask_token", "delete", "pad", "zero"):
        (attribution,) = troth.explain(bilstm_model, example, "random", masking=masking, target=0)
        (score,) = troth.measure(bilstm_model, [attribution], f"sufficiency(ratio=0.0, masking={masking})")
        assert np.isfinite(score.value)
