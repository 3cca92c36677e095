"""Model folders that are broken or hostile: which file is changed, how, and what the line must say."""

from __future__ import annotations

import base64
import json
import shutil
import struct
from pathlib import Path
from typing import Any


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()
DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
BILLION = 10**9


def charsmap(numbers: bytes, rest: bytes = b"") -> dict[str, Any]:
    """A normalizer with a compiled table: its length in bytes, the table, the replacements."""
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(numbers + rest).decode()}


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def replaced(pattern: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": "x"}


T5 = {
    "model_type": "t5", "vocab_size": 123, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2,
    "architectures": ["T5ForSequenceClassification"], "pad_token_id": 0,
}  # fmt: skip

# (file, what is changed in it: fields, or all of its bytes; what the line says). BERT and its word pieces.
BERT = [
    ("config.json", {"hidden_size": "sixteen"}, "hidden_size"),
    ("config.json", {"hidden_size": None}, "hidden_size"),
    ("config.json", {"hidden_size": 16.5}, "hidden_size"),
    ("config.json", {"hidden_size": [16]}, "hidden_size"),
    ("config.json", {"hidden_size": True}, "config.json"),
    ("config.json", {"hidden_size": 0}, "hidden_size is 0; it must be 1 or more"),
    ("config.json", {"hidden_size": -16}, "hidden_size is -16"),
    ("config.json", {"hidden_size": 17}, "config.json"),  # not a multiple of the heads
    ("config.json", {"hidden_size": BILLION, "num_attention_heads": 1}, "GB of memory are free"),
    ("config.json", {"hidden_size": 10**7, "num_attention_heads": 2}, "GB of memory are free"),
    ("config.json", {"hidden_size": 10**15, "num_attention_heads": 1}, "hidden_size is 1000000000000000"),
    ("config.json", {"num_attention_heads": 0}, "num_attention_heads is 0; it must be 1 or more"),
    ("config.json", {"num_attention_heads": -2}, "num_attention_heads is -2"),
    ("config.json", {"num_attention_heads": BILLION}, "num_attention_heads is 1000000000; it must be 10,000 at most"),
    ("config.json", {"num_hidden_layers": "2"}, "num_hidden_layers"),
    ("config.json", {"num_hidden_layers": BILLION}, "num_hidden_layers is 1000000000; it must be 1,000 at most"),
    ("config.json", {"num_hidden_layers": 10**30}, "num_hidden_layers is 1000000000000000000000000000000"),
    ("config.json", {"num_hidden_layers": 1e9}, "num_hidden_layers"),
    ("config.json", {"vocab_size": 0}, "vocab_size is 0; it must be 1 or more"),
    ("config.json", {"vocab_size": -1}, "vocab_size is -1"),
    ("config.json", {"vocab_size": "many"}, "vocab_size"),
    ("config.json", {"vocab_size": 10**12}, "GB of memory are free"),
    ("config.json", {"vocab_size": 10**13}, "vocab_size is 10000000000000"),
    ("config.json", {"vocab_size": 7}, "do not fit its config.json"),
    ("config.json", {"pad_token_id": 9_999}, "pad_token_id is 9999, but vocab_size is 123"),
    ("config.json", {"pad_token_id": -9_999}, "config.json"),
    ("config.json", {"pad_token_id": "[PAD]"}, "pad_token_id"),
    ("config.json", {"max_position_embeddings": 10**12}, "GB of memory are free"),
    ("config.json", {"max_position_embeddings": "64"}, "max_position_embeddings"),
    ("config.json", {"max_position_embeddings": -64}, "config.json"),
    ("config.json", {"intermediate_size": 10**12}, "GB of memory are free"),
    ("config.json", {"type_vocab_size": 10**12}, "GB of memory are free"),
    ("config.json", {"hidden_act": "nothing"}, "config.json"),
    ("config.json", {"hidden_act": 3}, "hidden_act"),
    ("config.json", {"hidden_dropout_prob": "x"}, "hidden_dropout_prob"),
    ("config.json", {"hidden_dropout_prob": 7.0}, "config.json"),
    ("config.json", {"layer_norm_eps": "small"}, "layer_norm_eps"),
    ("config.json", {"id2label": {"-1": "a", "-2": "b"}}, "id2label names class '-1'; 2 classes are numbered from 0"),
    ("config.json", {"id2label": {"0": "a", "2": "b"}}, "id2label names class '2'"),
    ("config.json", {"id2label": {"x": "a", "y": "b"}}, "id2label names class 'x'"),
    ("config.json", {"id2label": ["a", "b"]}, "id2label is ['a', 'b']; it must be like"),
    ("config.json", {"id2label": {}}, "id2label is {}"),
    ("config.json", {"id2label": 3}, "id2label is 3"),
    ("config.json", {"num_labels": BILLION, "id2label": ABSENT}, "num_labels is 1000000000"),
    ("config.json", {"num_labels": "two", "id2label": ABSENT}, "config.json"),
    ("config.json", {"model_type": "nothing"}, "config.json"),
    ("config.json", {"model_type": ["bert"]}, "config.json"),
    ("config.json", {"model_type": ABSENT, "architectures": ABSENT}, "config.json"),
    ("config.json", {"model_type": "vit"}, "config.json"),
    ("config.json", {"model_type": "qwen2", "num_hidden_layers": 10**8}, "num_hidden_layers is 100000000"),
    ("config.json", {"attn_implementation": "somebody/kernel"}, "names code on the hub, which is never run"),
    ("config.json", {"_attn_implementation": "somebody/kernel"}, "names code on the hub, which is never run"),
    ("config.json", {"text_config": {"num_layers": BILLION}}, "num_layers is 1000000000"),
    ("config.json", {"dtype": "float7"}, "config.json"),
    ("config.json", b"", "config.json is not JSON"),
    ("config.json", b"{", "config.json is not JSON"),
    ("config.json", b"[1]", "config.json holds a list"),
    ("config.json", b"null", "config.json holds a NoneType"),
    ("config.json", b"\xff\xfe", "config.json is not JSON"),
    ("config.json", DEEP, "config.json is nested too deeply"),
    ("config.json", b'{"a": ' + b"1" * 5_000 + b"}", "config.json contains an integer with more digits"),
    ("config.json", json.dumps(T5).encode(), "no trained classification head"),
    ("config.json", json.dumps(T5 | {"classifier_dropout": None}).encode(), "classifier_dropout"),
    ("config.json", json.dumps(T5 | {"classifier_dropout": "x"}).encode(), "classifier_dropout"),
    ("config.json", json.dumps(T5 | {"num_layers": BILLION}).encode(), "num_layers is 1000000000"),
    ("config.json", json.dumps(T5 | {"num_heads": 0}).encode(), "num_heads is 0"),
    ("config.json", json.dumps(T5 | {"d_model": 0}).encode(), "d_model is 0"),
    ("tokenizer.json", {"model": {"vocab": {"a": 0, "good": 1}}}, "its vocabulary lacks '[UNK]'"),
    ("tokenizer.json", {"model": {"vocab": {}}}, "its vocabulary lacks '[UNK]'"),
    ("tokenizer.json", {"model": {"unk_token": "[NONE]"}}, "its vocabulary lacks '[NONE]'"),
    ("tokenizer.json", {"model": {"vocab": {"[UNK]": -1}}}, "tokenizer.json: "),
    ("tokenizer.json", {"model": {"vocab": {"[UNK]": 10**12}}}, "tokenizer.json: "),
    ("tokenizer.json", {"model": {"vocab": ["a"]}}, "tokenizer.json: "),
    ("tokenizer.json", {"model": {"type": "Nothing"}}, "tokenizer.json: "),
    ("tokenizer.json", {"model": None}, "tokenizer.json: "),
    ("tokenizer.json", {"decoder": {"type": "Nothing"}}, "tokenizer.json: "),
    ("tokenizer.json", {"pre_tokenizer": {"type": "Nothing"}}, "tokenizer.json: "),
    ("tokenizer.json", {"normalizer": {"type": "Nothing"}}, "tokenizer.json: "),
    ("tokenizer.json", {"post_processor": {"type": "TemplateProcessing", "single": [{}]}}, "tokenizer.json: "),
    ("tokenizer.json", {"added_tokens": [{"id": -1, "content": "x"}]}, "tokenizer.json: "),
    ("tokenizer.json", {"added_tokens": 3}, "tokenizer.json: "),
    ("tokenizer.json", {"truncation": {"max_length": -1}}, "tokenizer.json: "),
    ("tokenizer.json", {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "%"}}, "tokenizer.json cannot"),
    ("tokenizer.json", {"normalizer": {"type": "Precompiled", "precompiled_charsmap": 3}}, "tokenizer.json cannot"),
    ("tokenizer.json", {"normalizer": charsmap(b"")}, "tokenizer.json cannot be used"),
    ("tokenizer.json", {"normalizer": charsmap(struct.pack("<I", 2**32 - 1))}, "tokenizer.json cannot be used"),
    ("tokenizer.json", {"normalizer": charsmap(struct.pack("<II", 4, 1))}, "tokenizer.json cannot be used"),
    ("tokenizer.json", {"normalizer": charsmap(struct.pack("<III", 8, 1, 2**32 - 1))}, "tokenizer.json cannot be used"),
    ("tokenizer.json", {"pre_tokenizer": split("(a+)+b")}, "tokenizer.json cannot be used: Onig"),
    ("tokenizer.json", {"pre_tokenizer": split("(a|aa)+$")}, "tokenizer.json cannot be used: Onig"),
    ("tokenizer.json", {"pre_tokenizer": split(r"(\w*\s*)*\d{9}")}, "tokenizer.json cannot be used: Onig"),
    ("tokenizer.json", {"pre_tokenizer": split("((")}, "tokenizer.json cannot be used: Oniguruma error"),
    ("tokenizer.json", {"pre_tokenizer": split("(?<n>a|\\g<n>b)c")}, "tokenizer.json cannot be used: Oniguruma error"),
    ("tokenizer.json", {"normalizer": replaced("(a+)+b")}, "tokenizer.json cannot be used: Onig"),
    ("tokenizer.json", {"normalizer": replaced("[")}, "tokenizer.json cannot be used: Oniguruma error"),
    ("tokenizer.json", {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split("(a+)+b")]}}, "Onig"),
    ("tokenizer.json", b"", "tokenizer.json: "),
    ("tokenizer.json", b"{}", "tokenizer.json: "),
    ("tokenizer.json", b"[1]", "tokenizer.json: "),
    ("tokenizer.json", b"null", "tokenizer.json: "),
    ("tokenizer.json", b"\xff", "tokenizer.json: "),
    ("tokenizer.json", DEEP, "tokenizer.json: "),
    ("tokenizer.json", ABSENT, "tokenizer.json: "),
    ("tokenizer_config.json", b"[", "tokenizer.json: "),
    ("tokenizer_config.json", b"[1]", "tokenizer.json: "),
    ("tokenizer_config.json", {"tokenizer_class": 3}, "tokenizer.json: "),
    ("tokenizer_config.json", {"model_max_length": "x"}, "model_max_length of its tokenizer is 'x'"),
    ("tokenizer_config.json", {"model_max_length": -5}, "model_max_length of its tokenizer is -5"),
    ("tokenizer_config.json", {"unk_token": 3}, "tokenizer.json: "),
    ("model.safetensors", b"", "model.safetensors: "),
    ("model.safetensors", b"\xff" * 64, "model.safetensors: "),
    ("model.safetensors", struct.pack("<Q", 2**62), "model.safetensors: "),
    ("model.safetensors", struct.pack("<Q", 2) + b"{}", "no trained classification head"),
    ("model.safetensors", ABSENT, "cannot load"),
]  # fmt: skip

# Of RoBERTa and its byte-level pairs.
ROBERTA = [
    ("tokenizer.json", {"model": {"merges": [["zz", "qq"]]}}, "tokenizer.json: Token `zz` out of vocabulary"),
    ("tokenizer.json", {"model": {"merges": [["a"]]}}, "tokenizer.json: "),
    ("tokenizer.json", {"model": {"merges": [3]}}, "tokenizer.json: "),
    ("tokenizer.json", {"model": {"unk_token": "<none>"}}, "its vocabulary lacks '<none>'"),
    ("config.json", {"pad_token_id": 500_000}, "pad_token_id is 500000"),
    ("config.json", {"max_position_embeddings": 1}, "cannot"),
]


def spoiled(good: Path, folder: Path, file: str, change: Any) -> Path:
    """A copy of a good model's folder with one file changed."""
    shutil.copytree(good, folder)
    path = folder / file
    if change is ABSENT:
        path.unlink()
    elif isinstance(change, bytes):
        path.write_bytes(change)
    else:
        path.write_text(json.dumps(_merged(json.loads(path.read_text()), change)))
    return folder


def _merged(settings: Any, change: dict[str, Any]) -> Any:
    for name, value in change.items():
        if value is ABSENT:
            settings.pop(name, None)
        elif name == "model" and isinstance(value, dict):  # of a tokenizer: the other parts stay
            settings[name] |= value
        else:
            settings[name] = value
    return settings
