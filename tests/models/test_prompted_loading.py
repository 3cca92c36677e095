"""Causal language models from folders, adapters and GGUF files; decoders with a classification head."""

import json
import warnings

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

import fakes
import troth
from troth.core.errors import TrothError

PROMPT = "Is the text good?\nText: {text}\nLabel:"
WORDS = ["good", "bad"]
TEXT = "a good film was bad"


@pytest.fixture
def folder(tmp_path):
    """A tiny GPT-2 as save_pretrained writes it."""
    return fakes.saved_causal(tmp_path / "tiny", "gpt2")


def test_a_folder_and_a_model_in_memory_are_the_same(folder):
    read = troth.load_model(str(folder), device="cpu", prompt=PROMPT, class_words=WORDS)
    tokenizer = fakes.causal_tokenizer("gpt2")
    held = troth.load_model(fakes.causal_model("gpt2"), tokenizer, prompt=PROMPT, class_words=WORDS)
    assert read.fingerprint == held.fingerprint
    one, other = (troth.explain(model, TEXT, "leave_one_out")[0].scores for model in (read, held))
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_causal_model_without_a_prompt_is_told_of_prompts(folder):
    with pytest.raises(TrothError, match=r"no trained classification head .* ask it for a class word: prompt=…"):
        troth.load_model(str(folder))


def test_an_encoder_is_no_causal_model(tmp_path):
    fakes.hf_model("distilbert").save_pretrained(tmp_path)
    fakes.tokenizer_for("distilbert").save_pretrained(tmp_path)
    with pytest.raises(TrothError, match="as a causal language model"):
        troth.load_model(str(tmp_path), prompt=PROMPT, class_words=WORDS)


# --- adapters


def adapter(base, target, task):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(task_type=task, r=2, target_modules=target, init_lora_weights=False)
    torch.manual_seed(1)
    return peft.get_peft_model(base, config).eval()


def test_a_lora_adapter_loads(folder, tmp_path):
    adapted = adapter(AutoModelForCausalLM.from_pretrained(folder), ["c_attn"], "CAUSAL_LM")
    adapted.save_pretrained(tmp_path / "adapter")
    plain, read = (
        troth.load_model(str(path), device="cpu", prompt=PROMPT, class_words=WORDS)
        for path in (folder, tmp_path / "adapter")
    )
    held = troth.load_model(adapted, fakes.causal_tokenizer("gpt2"), prompt=PROMPT, class_words=WORDS)
    before, merged, live = (troth.explain(model, TEXT, "leave_one_out", target=0)[0] for model in (plain, read, held))
    np.testing.assert_allclose(merged.scores, live.scores, atol=1e-4)
    assert np.abs(before.scores - live.scores).max() > 1e-2
    ids = held.encode([troth.Example("0", TEXT)])[0].ids
    with torch.no_grad():
        expected = adapted(input_ids=ids[None]).logits[0, -1, list(held.class_ids)].softmax(-1)
    torch.testing.assert_close(torch.tensor(live.probabilities), expected, rtol=1e-4, atol=1e-5)


def test_a_lora_adapter_with_a_classification_head_loads(tmp_path):
    tokenizer = fakes.tokenizer_for("roberta")
    base = fakes.saved_causal(tmp_path / "base", "llama", tokenizer)
    headed = fakes.causal_model("llama", head=True, vocab_size=len(tokenizer))
    headed.model.load_state_dict(AutoModelForCausalLM.from_pretrained(base).model.state_dict())
    headed.name_or_path = str(base)
    adapted = adapter(headed, ["q_proj", "v_proj"], "SEQ_CLS")
    adapted.save_pretrained(tmp_path / "adapter")
    model = troth.load_model(str(tmp_path / "adapter"), device="cpu")
    assert len(model.labels) == 3
    (found,) = troth.explain(model, TEXT, "leave_one_out")
    with torch.no_grad():
        expected = adapted(**tokenizer(TEXT, return_tensors="pt")).logits[0].softmax(-1)
    torch.testing.assert_close(torch.tensor(found.probabilities), expected, rtol=1e-4, atol=1e-5)


def test_an_adapter_without_its_base(tmp_path):
    pytest.importorskip("peft")
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(TrothError, match="names no base model"):
        troth.load_model(str(tmp_path), prompt=PROMPT, class_words=WORDS)
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "nowhere"}')
    with pytest.raises(TrothError, match=r"has no adapter_model\.safetensors"):
        troth.load_model(str(tmp_path), prompt=PROMPT, class_words=WORDS)


# --- decoders with a classification head


@pytest.mark.parametrize("family", ["gpt2", "llama", "mistral", "qwen2"])
@pytest.mark.parametrize("pad", [1, None])
def test_a_decoder_with_a_head_reads_its_last_token(family, pad):
    tokenizer = fakes.tokenizer_for("roberta")
    network = fakes.causal_model(family, head=True, vocab_size=len(tokenizer), pad_token_id=pad)
    model = troth.load_model(network, tokenizer)
    texts = ["a good film", "awful", "the soup was cold", "a bad book"]
    for text, attribution in zip(texts, troth.explain(model, texts, "leave_one_out", masking="delete"), strict=True):
        with torch.no_grad():
            states = network.base_model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0, -1]
            expected = network.score(states).softmax(-1)
        torch.testing.assert_close(torch.tensor(attribution.probabilities), expected, rtol=1e-4, atol=1e-5)


def test_a_path_from_zero_through_rms_norm_is_warned_of():
    tokenizer = fakes.tokenizer_for("roberta")
    model = troth.load_model(fakes.causal_model("llama", head=True, vocab_size=len(tokenizer)), tokenizer)
    with pytest.warns(UserWarning, match="RMSNorm"):
        troth.explain(model, TEXT, "integrated_gradients(steps=2, moves='all')")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        troth.explain(model, TEXT, "integrated_gradients(steps=2)")
        troth.explain(model, TEXT, "integrated_gradients(steps=2, moves='all', baseline=mask)")


# --- GGUF


def write_gguf(path, network, tokenizer):
    """A Llama in llama.cpp's format: its query and key weights are stored in another order."""
    gguf = pytest.importorskip("gguf")
    config, state = network.config, network.state_dict()
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token.startswith("<|") else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    for add in (writer.add_bos_token_id, writer.add_eos_token_id, writer.add_unk_token_id):
        add(0)
    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    inner = {
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    }  # fmt: skip
    for layer in range(config.num_hidden_layers):
        names |= {f"model.layers.{layer}.{ours}": f"blk.{layer}.{theirs}" for ours, theirs in inner.items()}
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for ours, theirs in names.items():
        weight = state[f"{ours}.weight"]
        if theirs.split(".")[-1] in heads:
            size = weight.shape[0] // heads[theirs.split(".")[-1]] // 2
            weight = weight.view(-1, 2, size, weight.shape[1]).transpose(1, 2).reshape(weight.shape)
        writer.add_tensor(f"{theirs}.weight", weight.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_loads(tmp_path):
    tokenizer = fakes.causal_tokenizer("gpt2")
    network = fakes.causal_model("llama", vocab_size=len(tokenizer), num_key_value_heads=2)
    write_gguf(tmp_path / "tiny.gguf", network, tokenizer)
    read = troth.load_model(str(tmp_path / "tiny.gguf"), device="cpu", prompt=PROMPT, class_words=WORDS)
    held = troth.load_model(network, tokenizer, prompt=PROMPT, class_words=WORDS)
    (one,), (other,) = (troth.explain(model, TEXT, "leave_one_out", target=0) for model in (read, held))
    np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-4)
