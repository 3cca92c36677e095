"""What the contract tests share: every kind of model, texts with their traps, and what must not change."""

import hashlib
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

import fakes
import heads
import troth
from troth.core.errors import TrothError
from troth.core.types import Example

OTHER_HEADS = {  # tests/models has a short test of each
    "token_classifier": heads.token_classifier,
    "encoder_decoder": heads.seq2seq,
    "similarity": heads.similarity,
    "multiple_choice": heads.multiple_choice,
}
KINDS = [*fakes.FAMILIES, "black_box", "prompted_llama", "prompted_gpt2", "llama_head", *OTHER_HEADS]
# Every method on close relatives of BERT, RoBERTa and Llama is a long check; tests/models tries these families, too.
_LONG = ("albert", "electra", "xlm_roberta", "distilbert", "prompted_gpt2", *OTHER_HEADS)
MARKS = {kind: [pytest.mark.full] for kind in _LONG}
KIND_CASES = [pytest.param(kind, marks=MARKS.get(kind, [])) for kind in KINDS]

# What refuses which kind of model; all the rest must run.
_LAYERS = {"alti", "decomp_x", "glob_enc"}
_ATTENTION = {"attention", "attention_x_gradient"}
_READABLE_LAYERS = {"bert", "roberta", "xlm_roberta", "distilbert"}
REFUSED = {
    "explainers": {
        **{kind: _LAYERS for kind in KINDS if kind not in _READABLE_LAYERS},
        "encoder_decoder": _LAYERS | _ATTENTION | {"attributive_masking"},
        "similarity": _LAYERS | _ATTENTION | {"attributive_masking"},
        "multiple_choice": _LAYERS | _ATTENTION,
    },
    "metrics": {
        "encoder_decoder": {"decision_flip"},
        "similarity": {"decision_flip"},
        "black_box": {
            "normalized_comprehensiveness", "normalized_sufficiency", "sensitivity", "soft_comprehensiveness",
            "soft_sufficiency",
        },
    },
    "maskings": {
        "deberta_v2": {"attention"},
        "llama_head": {"attention"},
        "encoder_decoder": {"attention"},
        "multiple_choice": {"attention"},
        "prompted_llama": {"infill", "pad"},
        "prompted_gpt2": {"infill", "pad"},
    },
}  # fmt: skip
# A black box has nothing but texts. These must run on it; others, new ones too, may refuse it.
ON_A_BLACK_BOX = {
    "explainers": {
        "attributive_masking", "beam_search", "exact_shapley", "kernel_shap", "leave_one_out", "lime", "random",
        "text_rank", "tf_idf",
    },
    "maskings": {"delete", "mask_token"},
}  # fmt: skip

TEXTS = [
    Example("short", "a good film", label=0),
    Example("pair", "the soup was cold", text_pair="is the film good ?", label=1),
    Example("one", "awful"),
    Example("odd", "👍🏽 don't zero\u200bwidth שלום"),
    Example("longer", "my new phone is fast , bright and a joy to use", label=2),
]


@contextmanager
def refusals(folder, kind, name):
    """Skips where a method refuses this kind of model and may; a refusal that is not expected fails."""
    refused = name in REFUSED[folder].get(kind, ())
    may_refuse = refused or (kind == "black_box" and name not in ON_A_BLACK_BOX.get(folder, (name,)))
    try:
        yield
    except TrothError as error:
        assert may_refuse, f"{name} must run on {kind}, but: {error}"
        assert "use " in str(error), error  # it says what to use instead
        pytest.skip(str(error))
    assert not refused, f"{name} runs on {kind} now; take it out of REFUSED"


def model_of(kind):
    if kind == "black_box":
        return troth.load_model(probabilities, labels=["no", "yes", "perhaps"])
    if kind.startswith("prompted_"):
        return fakes.prompted(kind.removeprefix("prompted_"))
    if kind == "llama_head":
        return decoder_with_head()
    if kind in OTHER_HEADS:
        return OTHER_HEADS[kind]()
    return fakes.encoder(kind)


@lru_cache
def decoder_with_head():
    tokenizer = fakes.tokenizer_for("roberta")  # which has a mask token and a padding token
    model = fakes.causal_model("llama", head=True, vocab_size=len(tokenizer))
    return troth.load_model(model, tokenizer=tokenizer)


def readable(kind, texts):
    """The texts that a kind of model reads: a prompt without {text_pair} takes no pairs."""
    if kind == "similarity":  # which compares two texts
        return [replace(text, text_pair=text.text_pair or "a great cast") for text in texts]
    one = kind.startswith("prompted_") or kind == "multiple_choice"
    return [text for text in texts if text.text_pair is None or not one]


def probabilities(texts):
    """Three classes from letters, smooth enough that every word matters."""
    rows = []
    for text in texts:
        joined = text if isinstance(text, str) else " ".join(text)
        rows.append([len(joined) % 7 + 1, joined.count("o") + 1, joined.count("a") + 2])
    weights = np.array(rows, dtype=float)
    return weights / weights.sum(1, keepdims=True)


def state_of(model):
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()]
    modes = [module.training for module in model.modules()]
    grads = [(parameter.requires_grad, parameter.grad is None) for parameter in model.parameters()]
    return hooks, modes, grads, model.config._attn_implementation, weights_of(model)


def weights_of(model):
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(name.encode() + tensor.numpy().tobytes())
    return digest.hexdigest()


def fingerprint_of(kind):
    return "" if kind == "black_box" else state_of(model_of(kind).model)


def close(scores, other):
    scale = max(1.0, float(np.abs(scores).max(initial=0)))
    np.testing.assert_allclose(scores, other, rtol=1e-3, atol=2e-4 * scale)
