"""Code that a model's folder brings along is never run, whoever loads it, and nobody is asked on standard input."""

from __future__ import annotations

import ast
import json
import shutil
from functools import cache
from pathlib import Path

import pytest
from tests.hostile.models_table import spoiled

import fakes
import troth as package
from troth.attribution_model import saving
from troth.commands.explain import keep_records
from troth.core.errors import TrothError

SOURCE = Path(package.__file__).parent
# What builds something from files that somebody else may have written, by the end of the call's name.
BUILDERS = ("from_pretrained", "from_config", "pipeline", "load_dataset", "get_dataset_split_names", "load_from_disk")
# datasets runs no code since its version 4 and has no such option; nor has peft, which loads weights alone.
WITHOUT_OPTION = {
    "datasets.load_dataset", "datasets.get_dataset_split_names", "datasets.load_from_disk", "PeftModel.from_pretrained",
}  # fmt: skip
MARKER = "it_ran"
CODE = f"""
open({MARKER!r}, "w").close()
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

class MyConfig(BertConfig):
    model_type = "mine"

class MyModel(BertForSequenceClassification):
    config_class = MyConfig

class MyTokenizer(PreTrainedTokenizerFast):
    pass

def generate(*arguments, **options):
    pass
"""
MAPPED = {
    "AutoConfig": "mine.MyConfig",
    "AutoModel": "mine.MyModel",
    "AutoModelForSequenceClassification": "mine.MyModel",
    "AutoModelForCausalLM": "mine.MyModel",
}
OWN_CONFIG = {"model_type": "mine", "auto_map": MAPPED, "architectures": ["MyModel"]}
OWN_TOKENIZER = {"auto_map": {"AutoTokenizer": ["mine.MyTokenizer"] * 2}, "tokenizer_class": "MyTokenizer"}


@cache
def calls():
    """Every call in the package that builds something from files: where, its name, its keywords."""
    return list(_calls())


def _calls():
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                if name.rpartition(".")[2] in BUILDERS:
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", name, node.keywords


def test_every_call_into_the_libraries_says_that_no_code_is_run():
    found = calls()
    assert len([name for _, name, _ in found if name.endswith("from_pretrained")]) >= 4
    for place, name, keywords in found:
        if name in WITHOUT_OPTION or name == "from_pretrained":  # the last is our own function
            continue
        said = [ast.unparse(keyword.value) for keyword in keywords if keyword.arg == "trust_remote_code"]
        assert said == ["False"], (place, name)


def test_there_is_one_place_where_transformers_builds_from_files():
    homes = {place.partition(":")[0] for place, name, _ in calls() if name != "from_pretrained"}
    # The referee also runs next to other versions of transformers; it loads the shipped model only.
    shipped = {"refereeing/situations.py"}
    assert homes == {"models/_pretrained.py", "data/sources/readers.py", "data/sources/folders.py"} | shipped


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """Folders with code of their own: a model, a tokenizer, an attribution model, an adapter on such a base."""
    root = tmp_path_factory.mktemp("room")
    good = root / "good"
    fakes.hf_model("bert", classes=2).save_pretrained(good)
    fakes.tokenizer_for("bert").save_pretrained(good)
    spoiled(good, root / "evil", "config.json", OWN_CONFIG)
    spoiled(good, root / "evil_tokenizer", "tokenizer_config.json", OWN_TOKENIZER)
    own = fakes.attribution_model("bert", 2)
    saving.save(root / "aml", own, {"loss": {}, "metric": "aopc_comprehensiveness", "learning_rate": 3e-3})
    fakes.saved_causal(root / "evil_writer", "llama")
    for folder in ("evil", "evil_tokenizer", "evil_writer"):
        (root / folder / "mine.py").write_text(CODE)
        (root / folder / "custom_generate").mkdir()
        (root / folder / "custom_generate" / "generate.py").write_text(CODE)
    (root / "evil_lora").mkdir()
    adapter = {"peft_type": "LORA", "base_model_name_or_path": "evil", "r": 2, "target_modules": ["query"]}
    (root / "evil_lora" / "adapter_config.json").write_text(json.dumps(adapter))
    weights = good / "model.safetensors"
    shutil.copy(weights, root / "evil_lora" / "adapter_model.safetensors")
    rows = [{"id": str(number), "text": text, "label": number % 2} for number, text in enumerate(fakes.CORPUS)]
    (root / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plan = 'data = ["data.jsonl"]\nexplainers = ["random"]\nmetrics = ["sparsity"]\nmodels = '
    (root / "plan.toml").write_text(f'{plan}["evil"]\n')
    model = package.load_model(str(good))
    for name, source in (("record", "evil"), ("lora_record", "evil_lora"), ("aml_record", "good")):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(root)
            method = "attributive_masking(checkpoint=aml)" if name == "aml_record" else "random"
            explained = package.explain(model, "a good film", method)
        keep_records(root / name, [explained], model, source, {}, {"seed": 0})
    shutil.move(root / "aml", root / "good_aml")
    spoiled(root / "good_aml", root / "aml", "config.json", OWN_CONFIG)
    (root / "aml" / "mine.py").write_text(CODE)
    return root


DATA = ["-d", "data.jsonl", "-e", "random", "--workers", "1", "--limit", "3", "--out", "new"]
EXPLAIN = ["explain", "a good film", "-e", "leave_one_out", "-m"]
FIT = ["--data", "data.jsonl", "--out", "new"]
REFUSED = "code of its own (auto_map), which is never run"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*EXPLAIN, "evil"], REFUSED),
        ([*EXPLAIN, "evil_lora"], REFUSED),
        ([*EXPLAIN, "evil", "--prompt", "{text} is", "--class-words", "good,bad"], REFUSED),
        ([*EXPLAIN, "evil", "--model-option", "trust_remote_code=true"], "code of a model's folder is never run"),
        (["explain", "a good film", "-m", "good", "-e", "attributive_masking(checkpoint=aml)"], REFUSED),
        (["bench", "-m", "evil", *DATA], REFUSED),
        (["bench", "-m", "evil_lora", *DATA], REFUSED),
        (["check", "-m", "evil", "-d", "data.jsonl"], REFUSED),
        (["sweep", "plan.toml", "--out", "new", "--workers", "1"], REFUSED),
        (["sweep", "plan.toml", "--out", "new", "--dry-run"], REFUSED),
        (["train", "plain", "--base", "evil", *FIT], REFUSED),
        (["train", "plain", "--base", "evil_lora", *FIT], "without config.json"),
        (["fit", "attributive_masking", "-m", "evil", *FIT], REFUSED),
        (["fit", "attributive_masking", "-m", "good", "--backbone", "evil", *FIT], REFUSED),
        (["verify", "record"], REFUSED),
        (["verify", "lora_record"], REFUSED),
        (["verify", "aml_record"], REFUSED),
        (["serve", "-m", "evil", "--port", "0"], REFUSED),
    ],
    ids=range(18),
)
def test_no_command_runs_it_even_where_standard_input_says_yes(troth, room, arguments, said):
    answer = troth(*arguments, room=room, stdin="y\n" * 9)
    assert MARKER not in answer.written, answer
    assert said in answer.out + answer.err, answer
    assert answer.code in (1, 2), answer  # 1: a record that does not hold
    assert "Traceback" not in answer.err
    assert "Do you wish to run" not in answer.out + answer.err


@pytest.mark.parametrize("arguments", [[*EXPLAIN, "evil_tokenizer"], [
    "explain", "a good film", "-m", "evil_writer", "--generate", "2", "-e", "leave_one_out"
]], ids=["tokenizer", "generate"])  # fmt: skip
def test_what_transformers_can_do_without_that_code_runs_none_either(troth, room, arguments):
    answer = troth(*arguments, room=room, stdin="y\n" * 9)
    assert answer.written == [], answer
    assert "Traceback" not in answer.err
    assert "Do you wish to run" not in answer.out + answer.err


def test_python_has_no_such_option_either(room, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for value in (True, False, "y"):
        with pytest.raises(TrothError, match="trust_remote_code is not an option"):
            package.load_model(str(room / "evil"), trust_remote_code=value)
    assert not (tmp_path / MARKER).exists()
