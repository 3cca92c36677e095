"""Model folders that are broken or hostile: one line that names the file, soon, in little memory, nothing written."""

from __future__ import annotations

import json
import os
import re
import resource
import time

import pytest
from tests.hostile.models_table import ABSENT, BERT, BILLION, ROBERTA, T5, charsmap, split, spoiled

import fakes
import troth as package
from troth.attribution_model import saving
from troth.core import trust
from troth.core.errors import TrothError
from troth.models import _folder_checks
from troth.training import bases

MOST_SECONDS, MOST_BYTES = 10, 1 << 30


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A model of each family; the attribution model in `aml`, the adapter in `lora`."""
    root = tmp_path_factory.mktemp("good")
    for family in ("bert", "roberta"):
        fakes.hf_model(family, classes=2).save_pretrained(root / family)
        fakes.tokenizer_for(family).save_pretrained(root / family)
    own = fakes.attribution_model("bert", 2)
    saving.save(root / "aml", own, {"loss": {}, "metric": "aopc_comprehensiveness", "learning_rate": 3e-3})
    return root


def refused(call):
    """The line of an error, which came soon and took little memory."""
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(TrothError) as error:
        call()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert time.process_time() - begun < MOST_SECONDS  # of work: the machine may be busy
    assert (peak - before) << 10 < MOST_BYTES
    line = str(error.value)
    assert "\n" not in line
    assert len(line) < 700
    return line


def named(rows):
    return [pytest.param(*row, id=f"{row[0]}-{str(row[1])[:50]}") for row in rows]


@pytest.mark.parametrize(("file", "change", "said"), named(BERT))
def test_a_broken_bert(good, tmp_path, file, change, said):
    folder = spoiled(good / "bert", tmp_path / "model", file, change)
    assert said in refused(lambda: package.explain(str(folder), "ein Wörterbuch ☃", "random", progress=False))


@pytest.mark.parametrize(("file", "change", "said"), named(ROBERTA))
def test_a_broken_roberta(good, tmp_path, file, change, said):
    folder = spoiled(good / "roberta", tmp_path / "model", file, change)
    assert said in refused(lambda: package.explain(str(folder), "ein Wörterbuch ☃", "random", progress=False))


# --- the command line, and all that loads a model


LISTED = [  # the file, what is changed, what the line says
    ("config.json", {"hidden_size": "sixteen"}, "config.json: "),
    ("config.json", {"num_attention_heads": 0}, "config.json: num_attention_heads is 0"),
    ("config.json", {"hidden_size": 0}, "config.json: hidden_size is 0"),
    ("config.json", {"vocab_size": 0}, "config.json: vocab_size is 0"),
    ("config.json", {"pad_token_id": 9_999}, "config.json: pad_token_id is 9999"),
    ("config.json", {"id2label": {"-1": "a", "-2": "b"}}, "config.json: id2label names class '-1'"),
    ("config.json", json.dumps(T5 | {"classifier_dropout": None}).encode(), "classifier_dropout"),
    ("config.json", {"num_hidden_layers": BILLION}, "config.json: num_hidden_layers is 1000000000"),
    ("config.json", {"hidden_size": BILLION, "num_attention_heads": 1}, "GB of memory are free"),
    ("tokenizer.json", {"model": {"vocab": {"good": 0}}}, "tokenizer.json: its vocabulary lacks '[UNK]'"),
    ("tokenizer.json", {"decoder": {"type": "Nothing"}}, "tokenizer.json: "),
    ("tokenizer.json", {"normalizer": charsmap(b"")}, "tokenizer.json cannot be used: Precompiled"),
    ("tokenizer.json", {"pre_tokenizer": split("(a+)+b")}, "tokenizer.json cannot be used: Onig"),
]
COMMANDS = {
    "explain": ["explain", "a good film", "-m", "bad"],
    "bench": ["bench", "-m", "bad", "-d", "data.jsonl", "-e", "random", "--workers", "1", "--out", "new"],
    "check": ["check", "-m", "bad", "-d", "data.jsonl"],
    "train": ["train", "plain", "--data", "data.jsonl", "--base", "bad", "--out", "new"],
    "fit": ["fit", "attributive_masking", "-m", "bad", "--data", "data.jsonl", "--out", "new"],
    "sweep": ["sweep", "plan.toml", "--out", "new", "--workers", "1"],
}


@pytest.mark.parametrize(("row", "command"), [
    *((row, "explain") for row in range(len(LISTED))),
    *((7, command) for command in COMMANDS if command != "explain"),
    *((12, command) for command in ("bench", "train", "fit")),
])  # fmt: skip
def test_on_the_command_line_it_is_one_line_and_nothing_is_written(troth, good, tmp_path, row, command):
    file, change, said = LISTED[row]
    spoiled(good / "bert", tmp_path / "bad", file, change)
    rows = [{"id": str(number), "text": text, "label": number % 2} for number, text in enumerate(fakes.CORPUS)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plan = {"models": ["bad"], "data": ["data.jsonl"], "explainers": ["random"], "metrics": ["sparsity"]}
    (tmp_path / "plan.toml").write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in plan.items()))
    answer = troth(*COMMANDS[command], room=tmp_path)
    assert (answer.code, answer.out, answer.written) == (2, "", []), answer
    assert re.match(r"troth: (plan.toml, line 1: )?cannot load \S*bad ", answer.err), answer.err
    assert answer.err.count("\n") == 1, answer.err
    assert said in answer.err


@pytest.mark.parametrize(("file", "change", "said"), [row for row in LISTED if "id2label" not in str(row[1])])
def test_an_attribution_model_and_a_training_check_their_files_too(good, tmp_path, file, change, said):
    folder = spoiled(good / "aml", tmp_path / "aml", file, change)
    if not isinstance(change, bytes):
        line = refused(lambda: saving.load(folder))
        assert line.startswith(f"cannot load the attribution model in {folder}: ")
        assert said in line
    base = spoiled(good / "bert", tmp_path / "base", file, change)
    line = refused(lambda: bases.build(str(base)).build([], ("a", "b"), 0, None))
    assert line.startswith(f"cannot load {base} to train it: ")
    assert said in line


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (b"[", "adapter_config.json is not JSON"),
        (b"[1]", "adapter_config.json holds a list"),
        ({"r": BILLION}, "adapter_config.json: r is 1000000000"),
        ({"r": "x"}, "adapter_config.json: r is 'x'"),
        ({"r": 0}, "adapter_config.json: r is 0"),
        ({"rank_pattern": {"query": 10**12}}, "adapter_config.json: r is 1000000000000"),
        ({"megatron_config": {"a": 1}, "megatron_core": "this"}, "megatron_config would load more than weights"),
        ({"tokenizer_kwargs": {"trust_remote_code": True}}, "tokenizer_kwargs would load more than weights"),
        ({"peft_type": "NOTHING"}, "cannot load"),
        ({"target_modules": ["nothing"]}, "cannot load"),
        ({"base_model_name_or_path": ""}, "names no base model"),
    ],
    ids=range(11),
)
def test_a_broken_adapter(good, tmp_path, change, said):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query"], modules_to_save=["classifier"])
    adapted = peft.get_peft_model(fakes.hf_model("bert", classes=2), config)
    adapted.peft_config["default"].base_model_name_or_path = str(good / "bert")
    adapted.save_pretrained(tmp_path / "lora")
    folder = spoiled(tmp_path / "lora", tmp_path / "bad", "adapter_config.json", change)
    with trust.allowing(str(good)):
        assert package.load_model(str(tmp_path / "lora")).labels == ("LABEL_0", "LABEL_1")
        assert said in refused(lambda: package.load_model(str(folder)))


def test_an_adapter_on_a_broken_base(good, tmp_path):
    peft = pytest.importorskip("peft")
    base = spoiled(good / "bert", tmp_path / "base", "config.json", {"num_hidden_layers": BILLION})
    adapted = peft.get_peft_model(fakes.hf_model("bert", classes=2), peft.LoraConfig(r=2, target_modules=["query"]))
    adapted.peft_config["default"].base_model_name_or_path = str(base)
    adapted.save_pretrained(tmp_path / "lora")
    assert "num_hidden_layers is 1000000000" in refused(lambda: package.load_model(str(tmp_path / "lora")))


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF\x03\0\0\0" + b"\xff" * 16, bytes(range(64))], ids=range(4))
def test_a_broken_gguf_file(tmp_path, content):
    (tmp_path / "model.gguf").write_bytes(content)
    line = refused(lambda: package.load_model(str(tmp_path / "model.gguf"), prompt="{text}", class_words=["a", "b"]))
    assert "model.gguf" in line


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_is_not_read(good, tmp_path, file, kind):
    folder = spoiled(good / "bert", tmp_path / "model", file, ABSENT)
    os.mkfifo(folder / file) if kind == "pipe" else (folder / file).symlink_to("/dev/zero")
    line = refused(lambda: package.load_model(str(folder)))
    assert f"{file} is a pipe or a device" in line or "without config.json" in line


# --- tokenizers that are tried out in a process of their own


def test_a_regular_expression_that_takes_too_long_is_met_by_a_time_limit(good, tmp_path, monkeypatch):
    monkeypatch.setattr(_folder_checks, "_PATIENCE", 0.5)
    folder = spoiled(good / "bert", tmp_path / "m", "tokenizer.json", {"pre_tokenizer": split(r"\w*\w*\w*[^\w\W]")})
    assert "a regular expression needs more than 0 s for a text of 200" in refused(
        lambda: package.load_model(str(folder))
    )


@pytest.mark.parametrize(
    "pattern",
    [
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",  # of GPT-2
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+",  # of Llama 3
        " {2,}",
    ],
    ids=range(3),
)
def test_patterns_in_use_pass(good, tmp_path, pattern):
    folder = spoiled(good / "bert", tmp_path / "model", "tokenizer.json", {"pre_tokenizer": split(pattern)})
    assert len(package.load_model(str(folder)).encode([package.Example("0", "a good film")])) == 1


def test_a_tokenizer_of_tables_alone_is_not_tried(good, monkeypatch):
    monkeypatch.setattr(_folder_checks.subprocess, "run", lambda *_, **__: pytest.fail("a process was started"))
    package.load_model(str(good / "bert"))
