"""A model's fingerprint: another one for every change of the model, the same wherever the same model comes from."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import normalizers, pre_tokenizers, processors

import fakes
import troth
from troth.core.hashing import digest, tensors_digest
from troth.models import _identity, load_model

SIZES = {"hidden_size": 64, "intermediate_size": 256}  # tensors that a sample of 4,096 values does not cover
LAYER = "bert.encoder.layer.0."


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    fakes.hf_model(**SIZES).save_pretrained(folder)
    fakes.wordpiece().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def known():
    """The fingerprints of all changed models so far: each must differ from every other."""
    return {}


def weights(edit):
    def change(folder):
        tensors = load_file(folder / "model.safetensors")
        edit(tensors)
        save_file(
            {name: tensor.contiguous() for name, tensor in tensors.items()},
            folder / "model.safetensors",
            {"format": "pt"},
        )

    return change  # fmt: skip


def values(file, **changes):
    def change(folder):
        facts = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps({**facts, **changes}))

    return change


def tokens(edit):
    def change(folder):
        facts = json.loads((folder / "tokenizer.json").read_text())
        edit(facts)
        (folder / "tokenizer.json").write_text(json.dumps(facts))

    return change


def swapped(mapping, one, other):
    mapping[one], mapping[other] = mapping[other], mapping[one]


def shuffled(tensors):
    name = "bert.embeddings.word_embeddings.weight"
    tensors[name] = tensors[name][torch.randperm(len(tensors[name]), generator=torch.Generator().manual_seed(0))]


def one_value(tensors):
    tensors[f"{LAYER}intermediate.dense.weight"].view(-1)[4097] += 0.001


def one_bit(tensors):
    weight = tensors[f"{LAYER}output.dense.weight"].view(-1)
    weight[3] = torch.nextafter(weight[3], torch.tensor(9.0))


def two_rows(tensors):
    weight = tensors[f"{LAYER}intermediate.dense.weight"]
    weight[[1, 2]] = weight[[2, 1]]


def transposed(tensors):
    name = f"{LAYER}attention.self.query.weight"
    tensors[name] = tensors[name].T.clone()


CHANGES = {
    "word vectors shuffled": weights(shuffled),
    "one value of a large tensor": weights(one_value),
    "one bit of a large tensor": weights(one_bit),
    "two rows swapped": weights(two_rows),
    "a square matrix transposed": weights(transposed),
    "two tensors swapped": weights(
        lambda all: swapped(all, f"{LAYER}attention.self.query.weight", f"{LAYER}attention.self.key.weight")
    ),
    "a bias": weights(lambda all: all["classifier.bias"].add_(torch.tensor([0.0, 0.0, 1e-6]))),
    "activation": values("config.json", hidden_act="relu"),
    "heads": values("config.json", num_attention_heads=4),
    "epsilon": values("config.json", layer_norm_eps=1e-5),
    "labels swapped": values("config.json", id2label={"0": "LABEL_1", "1": "LABEL_0", "2": "LABEL_2"}),
    "a label renamed": values("config.json", id2label={"0": "LABEL_0", "1": "LABEL_1", "2": "other"}),
    "problem type": values("config.json", problem_type="multi_label_classification"),
    "decoder": values("config.json", is_decoder=True),
    "two words swapped": tokens(lambda all: swapped(all["model"]["vocab"], "good", "bad")),
    "upper case": tokens(lambda all: all["normalizer"].update(lowercase=False)),
    "normalizer": tokens(lambda all: all["normalizer"].update(strip_accents=False)),
    "unknown token": tokens(lambda all: all["model"].update(unk_token="[MASK]")),
    "longest word": tokens(lambda all: all["model"].update(max_input_chars_per_word=3)),
    "template": tokens(lambda all: all["post_processor"].update(single=all["post_processor"]["single"][1:])),
    "mask token": values("tokenizer_config.json", mask_token="[UNK]"),
    "chat template": values("tokenizer_config.json", chat_template="{{ messages }}"),
    "inputs": values("tokenizer_config.json", model_input_names=["input_ids", "attention_mask"]),
    "length": values("tokenizer_config.json", model_max_length=16),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_folder_is_another_model(base, known, tmp_path, name):
    folder = shutil.copytree(base, tmp_path / "changed")
    CHANGES[name](folder)
    for file in folder.iterdir():  # an edit that keeps the time is an edit
        os.utime(file, ns=(0, (base / file.name).stat().st_mtime_ns))
    found = load_model(str(folder), device="cpu").fingerprint
    known.setdefault("unchanged", load_model(str(base), device="cpu").fingerprint)
    assert found not in known.values()
    known[name] = found


def added_token(model, tokenizer):
    tokenizer.add_tokens(["good film"])


def no_template(model, tokenizer):
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing("$A", "$A $B", [])


def other_normalizer(model, tokenizer):
    tokenizer.backend_tokenizer.normalizer = normalizers.NFKC()


def other_words(model, tokenizer):
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()


def user_hook(module, inputs, output):
    return output * 2


IN_MEMORY = {
    "bfloat16": lambda model, _: model.to(torch.bfloat16),
    "float64": lambda model, _: model.to(torch.float64),
    "added token": added_token,
    "no special tokens": no_template,
    "other normalizer": other_normalizer,
    "other pre-tokenizer": other_words,
    "activation": lambda model, _: setattr(
        model.bert.encoder.layer[0].intermediate, "intermediate_act_fn", torch.nn.ReLU()
    ),
    "epsilon": lambda model, _: setattr(model.bert.encoder.layer[1].output.LayerNorm, "eps", 0.1),
    "heads": lambda model, _: setattr(model.bert.encoder.layer[1].attention.self, "num_attention_heads", 4),
    "hook": lambda model, _: model.classifier.register_forward_hook(user_hook),
    "data": lambda model, _: model.classifier.weight.data.mul_(1.5),
    "layer left out": lambda model, _: model.bert.encoder.layer.pop(1),
}


@pytest.mark.parametrize("name", IN_MEMORY)
def test_a_model_changed_in_memory_is_another_model(known, name):
    model, tokenizer = fakes.hf_model(**SIZES), fakes.wordpiece()
    before = load_model(model, tokenizer=tokenizer)
    known.setdefault("unchanged", before.fingerprint)
    assert before.fingerprint == known["unchanged"]
    IN_MEMORY[name](model, tokenizer)
    before.identify(whole=True)
    assert before.fingerprint not in known.values()
    known[f"{name} in memory"] = before.fingerprint


OPTIONS = {
    "labels": {"labels": ["a", "b", "c"]},
    "max_length": {"max_length": 8},
    "multi_label": {"multi_label": True},
    "threshold": {"multi_label": True, "threshold": 0.3},
    "precision": {"precision": "fast"},
    "windows": {"windows": True, "max_length": 16},
    "stride": {"windows": {"stride": 3}, "max_length": 16},
    "dtype": {"dtype": "bfloat16"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_change_answers_change_the_fingerprint(base, known, name):
    found = load_model(str(base), device="cpu", **OPTIONS[name]).fingerprint
    assert found not in {other for key, other in known.items() if key != "bfloat16 in memory"}
    if name == "dtype":  # the same model, wherever it was cast
        assert found == load_model(fakes.hf_model(**SIZES).to(torch.bfloat16), tokenizer=fakes.wordpiece()).fingerprint
    else:
        known[f"option {name}"] = found


def test_pooling_and_merges_count(tmp_path):
    fakes.hf_model("modernbert").save_pretrained(tmp_path)
    fakes.tokenizer_for("modernbert").save_pretrained(tmp_path)
    found = {load_model(str(tmp_path), device="cpu").fingerprint}
    values("config.json", classifier_pooling="mean")(tmp_path)
    found.add(load_model(str(tmp_path), device="cpu").fingerprint)
    tokens(lambda all: swapped(all["model"]["merges"], 0, 1))(tmp_path)
    found.add(load_model(str(tmp_path), device="cpu").fingerprint)
    assert len(found) == 3


@pytest.mark.full
def test_the_same_model_has_the_same_fingerprint_everywhere(base, tmp_path):
    first = load_model(str(base), device="cpu")
    moved = load_model(str(shutil.copytree(base, tmp_path / "moved")), device="cpu")
    memory = load_model(fakes.hf_model(**SIZES), tokenizer=fakes.wordpiece())
    code = f"import troth; print(troth.load_model({str(base)!r}, device='cpu').fingerprint)"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert {first.fingerprint, moved.fingerprint, memory.fingerprint, other} == {first.fingerprint}
    assert len(first.fingerprint) == 32
    # Asking a model, and how its tokenizer was called last, change nothing.
    troth.explain(memory, "a good film", "integrated_gradients(steps=2)", progress=False)
    memory.tokenizer(["a good film"], truncation=True, padding="max_length", max_length=7)
    memory.identify(whole=True)
    assert memory.fingerprint == first.fingerprint


def test_training_on_is_noticed_by_the_next_call():
    wrapped = load_model(fakes.hf_model(), tokenizer=fakes.wordpiece())
    before = wrapped.fingerprint
    assert load_model(wrapped).fingerprint == before
    with torch.no_grad():
        wrapped.model.classifier.weight += 1
    assert load_model(wrapped).fingerprint != before


def test_swapped_weights_are_benched_again(base, tmp_path):
    """The same command after the weights in the folder were replaced, at the same time and of the same size."""
    folder = shutil.copytree(base, tmp_path / "model")
    asked = {"explainers": ["leave_one_out"], "metrics": ["sufficiency"], "progress": False}
    data = [troth.Example(str(place), text) for place, text in enumerate(fakes.CORPUS[:4])]
    first = troth.bench(str(folder), data, out=tmp_path / "run", **asked).leaderboard.to_csv()
    times = (folder / "model.safetensors").stat()
    weights(shuffled)(folder)
    os.utime(folder / "model.safetensors", ns=(times.st_atime_ns, times.st_mtime_ns))
    again = troth.bench(str(folder), data, out=tmp_path / "run", **asked).leaderboard
    fresh = troth.bench(str(folder), data, out=tmp_path / "fresh", **asked).leaderboard
    key = ("leave_one_out", "sufficiency")
    assert again.summaries[key].value == fresh.summaries[key].value
    assert first != again.to_csv()


def test_a_model_in_memory_that_was_changed_is_benched_again(tmp_path):
    wrapped = load_model(fakes.hf_model(), tokenizer=fakes.wordpiece())
    asked = {"explainers": ["leave_one_out"], "metrics": ["sufficiency"], "out": tmp_path, "progress": False}
    data = [troth.Example(str(place), text) for place, text in enumerate(fakes.CORPUS[:3])]
    first = troth.bench(wrapped, data, **asked).leaderboard
    wrapped.model.bert.embeddings.word_embeddings.weight.data.mul_(-1)  # unseen by PyTorch's counters
    again = troth.bench(wrapped, data, **asked).leaderboard
    key = ("leave_one_out", "sufficiency")
    assert first.summaries[key].value != again.summaries[key].value


def test_values_and_names_cannot_be_moved_into_each_other():
    one, two = torch.zeros(2), torch.zeros(3)
    mixed = [{"ab": one, "c": two}, {"a": one, "bc": two}, {"ab": two, "c": one}, {"ab(2,)": one, "c": two}]
    mixed += [{"ab": torch.cat([one, two])}, {"ab": one.double(), "c": two}, {"ab": one[None], "c": two}]
    mixed += [{"ab": one, "c": two, "d": torch.zeros(0)}, {"ab": torch.zeros(2, dtype=torch.int32), "c": two}]
    assert len({tensors_digest(each) for each in mixed}) == len(mixed)
    plain = [
        ["a", "b"],
        ["ab"],
        ["a", ["b"]],
        {"a": "b"},
        [["a", "b"]],
        {"{}": [["'a'", "b"]]},
        "ab",
        [1],
        ["1"],
        [True],
    ]
    assert len({digest(each) for each in plain}) == len(plain)


def test_tied_and_strided_weights_are_read_as_they_are():
    whole = torch.arange(12.0).reshape(3, 4)
    assert tensors_digest({"a": whole.T}) == tensors_digest({"a": whole.T.contiguous()})
    assert tensors_digest({"a": whole.T}) != tensors_digest({"a": whole.reshape(4, 3)})
    assert tensors_digest({"a": whole, "b": whole}) == tensors_digest({"a": whole, "b": whole.clone()})


def test_large_weights_are_hashed_by_several_threads(monkeypatch):
    weights = {"a": torch.arange(3000.0), "b": torch.arange(10.0)}
    monkeypatch.setattr("troth.core.hashing._PIECE", 64)
    alone = tensors_digest(weights)
    monkeypatch.setattr("troth.core.hashing._MANY", 0)
    assert tensors_digest(weights) == alone


def test_weights_that_are_elsewhere_cannot_be_identified():
    with pytest.raises(troth.TrothError, match="some weights are offloaded"):
        _identity.fingerprint(torch.nn.Linear(2, 2, device="meta"))


def test_older_fingerprints_are_known():
    assert _identity.is_older("a81b2e4de7ed4986")
    assert _identity.is_older("a81b2e4de7ed4986-fast")
    assert not _identity.is_older(fakes.encoder().fingerprint)


# --- functions, and what they hold


def table(weights):
    def predict(texts):
        scores = [weights.get(text.split()[0], 0.5) if text else 0.5 for text in texts]
        return [[score, 1 - score] for score in scores]

    return predict


class Holder:
    def __init__(self, weights, **more):
        self._weights, self.calls, self.more = weights, 0, more

    def __call__(self, texts):
        self.calls += 1
        return table(self._weights)(texts)


LARGE = torch.zeros(3 << 20)


def large(place):
    tensor = LARGE.clone()
    tensor[place] = 1
    return Holder({}, tensor=tensor)


FUNCTIONS = [
    table({"good": 0.9}), table({"good": 0.1}), table({"bad": 0.9}), Holder({"good": 0.9}), Holder({"good": 0.1}),
    Holder({"good": 0.9}, deep={"list": [1, {"x": [0]}]}), Holder({"good": 0.9}, deep={"list": [1, {"x": [1]}]}),
    large(1), large(2), lambda texts: [[0.5, 0.5]] * len(texts), lambda texts: [[0.4, 0.6]] * len(texts),
]  # fmt: skip


def test_functions_that_hold_other_values_are_other_models():
    assert len({load_model(each).fingerprint for each in FUNCTIONS}) == len(FUNCTIONS)


def test_a_function_counts_its_calls_without_becoming_another():
    holder = Holder({"good": 0.9})
    before = load_model(holder).fingerprint
    holder(["good"])
    assert load_model(holder).fingerprint == before


def test_a_helper_file_is_part_of_a_function(tmp_path, monkeypatch):
    found = set()
    for number, value in enumerate((0.2, 0.8)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "helping.py").write_text(f"def score(text):\n    return {value}\n")
        (folder / "mine.py").write_text(
            "import helping\ndef predict(texts):\n    return [[helping.score(text), 0.1] for text in texts]\n"
        )
        monkeypatch.syspath_prepend(str(folder))
        for name in ("helping", "mine"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        import mine

        found.add(load_model(mine.predict).fingerprint)
    assert len(found) == 2
