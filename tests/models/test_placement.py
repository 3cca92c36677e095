"""Models whose weights are split over the CPU and the disk say what unsplit ones say."""

import numpy as np
import pytest
import torch

import fakes
import troth
from troth.core.errors import TrothError

TEXTS = ["a good film with a great cast and a bad ending", "the soup was cold"]
BERT = {
    "bert.embeddings": "cpu", "bert.encoder.layer.0": "cpu", "bert.encoder.layer.1": "disk", "bert.pooler": "disk",
    "classifier": "disk",
}  # fmt: skip
GPT2 = {
    "transformer.wte": "cpu", "transformer.wpe": "disk", "transformer.h.0": "cpu", "transformer.h.1": "disk",
    "transformer.ln_f": "disk", "lm_head": "cpu",
}  # fmt: skip
LLAMA = {
    "model.embed_tokens": "disk", "model.layers.0": "cpu", "model.layers.1": "disk", "model.norm": "cpu",
    "model.rotary_emb": "cpu", "lm_head": "disk",
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    bert = tmp_path_factory.mktemp("bert")
    fakes.hf_model("bert").save_pretrained(bert)
    fakes.tokenizer_for("bert").save_pretrained(bert)
    causal = {family: fakes.saved_causal(tmp_path_factory.mktemp(family), family) for family in ("gpt2", "llama")}
    return {"bert": bert, **causal, "offload": tmp_path_factory.mktemp("offload")}


def both(folders, name, device_map, **options):
    options["dtype"] = "float64"  # the unsplit encoder is read by our own arithmetic, which rounds otherwise
    place = str(folders["offload"] / name)
    split = troth.load_model(folders[name], device_map=device_map, offload_folder=place, **options)
    assert any(weights.is_meta for weights in split.model.parameters())
    return split, troth.load_model(folders[name], **options)


def assert_same(split, whole, methods, **options):
    for method in methods:
        found, expected = (troth.explain(model, TEXTS, method, **options) for model in (split, whole))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.scores, other.scores, rtol=1e-6, atol=1e-6, err_msg=method)
            np.testing.assert_allclose(one.probabilities, other.probabilities, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "device_map", [pytest.param(BERT, id="split"), pytest.param({"": "disk"}, id="all on disk", marks=pytest.mark.full)]
)
def test_an_encoder(folders, device_map):
    split, whole = both(folders, "bert", device_map)
    assert split.device == torch.device("cpu")
    assert split.fingerprint == whole.fingerprint
    trained = [parameter.requires_grad for parameter in split.model.parameters()]
    erasing, gradients = ("leave_one_out", "kernel_shap(samples=40)"), ("gradient", "input_x_gradient")
    paths = ("integrated_gradients(steps=3)", "attention", "attention_x_gradient", "deep_lift")
    assert_same(split, whole, erasing + gradients + paths)
    for masking in ("delete", "zero", "attention", "mix"):
        assert_same(split, whole, ("leave_one_out",), masking=masking)
    assert [parameter.requires_grad for parameter in split.model.parameters()] == trained
    assert all("forward" in vars(module) for module in [split.model.classifier])  # accelerate's hooks are still there


@pytest.mark.parametrize(
    ("name", "device_map"),
    [
        ("llama", LLAMA),
        pytest.param("gpt2", GPT2, marks=pytest.mark.full),
        pytest.param("llama", {"": "disk"}, marks=pytest.mark.full),
    ],
)
def test_a_causal_language_model(folders, name, device_map):
    words = {"prompt": fakes.PROMPTS[name], "class_words": ["good", "bad"]}
    for options in (words, {"continuation": "the film was good"}, {"generate": 3}):
        split, whole = both(folders, name, device_map, **options)
        methods = ("leave_one_out", "input_x_gradient", "integrated_gradients(steps=2)")
        assert_same(split, whole, methods)
        assert split.fingerprint == whole.fingerprint


def test_models_that_the_user_has_split(folders):
    from accelerate import dispatch_model

    network = fakes.hf_model("bert").double()
    whole = troth.load_model(folders["bert"], dtype="float64")
    split = {**BERT, "bert.encoder.layer.1": "cpu"}
    dispatched = dispatch_model(network, split, offload_dir=str(folders["offload"] / "memory"))
    assert_same(troth.load_model(dispatched, tokenizer=whole.tokenizer), whole, ("leave_one_out", "gradient"))


def test_automatic_placement_and_refusals(folders):
    assert_same(*(troth.load_model(folders["bert"], device_map=where) for where in ("auto", None)), ("leave_one_out",))
    split, _ = both(folders, "bert", BERT)
    for refused, said in (
        (
            lambda: troth.explain(split, TEXTS, "alti"),
            "alti reads the weights of all layers, and those of .* are",
        ),
        (split.twin, "is quantized or split over devices, so its weights cannot be changed here"),
    ):
        with pytest.raises(TrothError, match=said):
            refused()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"device_map": "auto", "device": "cpu"}, "device=cpu places the whole model and device_map places its parts"),
        ({"offload_folder": "x"}, 'offload_folder needs device_map, such as device_map="auto"'),
        ({"quantization": "2bit"}, "quantization must be 4bit, 8bit or a quantization config"),
    ],
)
def test_options_that_do_not_go_together(folders, options, said):
    with pytest.raises(TrothError, match=said):
        troth.load_model(folders["bert"], **options)


def test_what_is_in_memory_and_what_has_no_network_is_not_placed():
    with pytest.raises(TrothError, match="device_map is for a model that is loaded here"):
        troth.load_model(fakes.hf_model("bert"), tokenizer=fakes.tokenizer_for("bert"), device_map="auto")
    with pytest.raises(TrothError, match="device_map is for"):
        troth.load_model(fakes.planted(), device_map="auto")


def test_quantization_needs_its_library(folders, monkeypatch):
    monkeypatch.setattr("troth.models._placement.find_spec", lambda name: None if name == "bitsandbytes" else name)
    with pytest.raises(TrothError, match="quantization 4bit needs bitsandbytes, which is not installed"):
        troth.load_model(folders["bert"], quantization="4bit")


def test_4_bit_weights_that_would_be_repacked_are_refused(monkeypatch):
    model = fakes.hf_model("bert")
    monkeypatch.setattr(model.classifier, "support_avx512bf16_for_cpu", True, raising=False)
    with pytest.raises(
        TrothError, match="4-bit weights on the CPU, which bitsandbytes repacks when they are first used"
    ):
        troth.load_model(model, tokenizer=fakes.tokenizer_for("bert"))


def test_4_bit_weights_on_the_cpu(folders):
    """As with the weights that bitsandbytes gives back, in plain layers; also after passes without gradients."""
    functional = pytest.importorskip("bitsandbytes.functional")
    options = {"continuation": "a bad film", "dtype": "float32"}
    quantized = troth.load_model(folders["llama"], quantization="4bit", device="cpu", **options)
    plain = troth.load_model(folders["llama"], device="cpu", **options)
    assert quantized.fingerprint != plain.fingerprint
    methods = ("leave_one_out", "input_x_gradient", "integrated_gradients(steps=3)", "leave_one_out")
    full = troth.explain(plain, TEXTS, "leave_one_out")
    small = [name for name, layer in quantized.model.named_modules() if type(layer).__name__ == "Linear4bit"]
    assert small
    with torch.no_grad():
        for name in small:
            weight = quantized.model.get_submodule(name).weight
            plain.model.get_submodule(name).weight.copy_(functional.dequantize_4bit(weight.data, weight.quant_state))
    plain = troth.load_model(plain.model, tokenizer=plain.tokenizer, continuation="a bad film")
    assert_same(quantized, plain, methods)
    changed = troth.explain(quantized, TEXTS, "leave_one_out")
    assert max(np.abs(one.scores - other.scores).max() for one, other in zip(full, changed, strict=True)) > 1e-4
