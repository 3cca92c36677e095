"""Wrong calls in Python: whatever is passed, a TrothError in one line, and nothing is written."""

from __future__ import annotations

import inspect
import pickle
from collections import UserDict
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import fakes
import troth
from troth.core.errors import TrothError
from troth.core.types import Attribution

TEXT = "a good film"


@pytest.fixture(scope="module")
def model():
    return fakes.encoder("bert")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(call):
    with pytest.raises(TrothError) as error:
        call()
    line = str(error.value)
    assert "\n" not in line
    assert 10 < len(line) < 1_500
    return line


# --- every argument of every public function


def good(name):
    """Arguments that work; one of them is replaced."""
    model = fakes.encoder("bert")
    films = [troth.Example(str(number), text, label=number % 2) for number, text in enumerate(fakes.CORPUS[:4])]
    attributions = troth.explain(model, TEXT, "random", progress=False)
    return {
        "explain": {"model": model, "texts": TEXT, "explainer": "random"},
        "measure": {"model": model, "attributions": attributions, "metric": "sparsity"},
        "prove": {"model": model, "attributions": attributions},
        "interactions": {"model": model, "texts": TEXT},
        "referee": {"attribute": print, "only": ["answers"]},
        "log_to_mlflow": {"board": None},
        "log_to_wandb": {"board": None},
        "cite": {"model": fakes.prompted(), "question": "what", "passages": [TEXT, "a bad film"], "answer": "a film"},
        "bench": {"model": model, "data": films, "explainers": ["random"], "metrics": ["sparsity"], "out": "run"},
        "check": {"model": model, "data": "reviews"},
        "fit": {"model": model, "data": films, "out": "fit"},
        "fresh": {"support": model, "splits": {}, "base": "scratch", "out": "fresh"},
        "train": {"recipe": "plain", "data": films, "base": "scratch", "out": "train"},
        "load_model": {"source": model.model, "tokenizer": model.tokenizer},
        "from_scores": {"model": model, "example": TEXT, "scores": [1.0, 2.0, 3.0]},
        "Example": {"id": "0", "text": TEXT},
        "Prober": {"model": model},
    }[name]


FUNCTIONS = {name: getattr(troth, name) for name in troth.__all__ if name not in ("Attribution", "Score", "TrothError")}
FUNCTIONS |= {"from_scores": Attribution.from_scores}
del FUNCTIONS["load_data"]  # its arguments: tests/data
WRONG = {"object": object(), "complex": 3j, "bytes": b"\xff"}
# An id is whatever can be written; a label's kind, a recipe's and a name for a command are anybody's.
FREE = {("Example", "id"), ("Example", "label"), ("Prober", "memory"), ("Prober", "window")}


def arguments():
    for name, function in FUNCTIONS.items():
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD and (name, parameter.name) not in FREE:
                for kind in WRONG:
                    yield name, parameter.name, kind


@pytest.mark.parametrize(("name", "argument", "kind"), arguments())
def test_an_argument_of_the_wrong_kind(here, name, argument, kind):
    given = good(name) | {argument: WRONG[kind]}
    first = [given.pop("source")] if name == "load_model" else []
    refused(lambda: FUNCTIONS[name](*first, **given))
    assert list(here.iterdir()) == []


# --- calls that were found to raise something else


def words(**change):
    """A tokenizer that returns something else than it should."""
    real = fakes.wordpiece()

    class Tokenizer:
        is_fast, model_max_length, pad_token_id, mask_token_id = True, 64, 0, 4
        vocab_size = len(real)

        def __call__(self, texts, pairs=None, **options):
            if "returns" in change:
                return change["returns"]
            batch = real(texts, pairs, **options)
            return SimpleBatch(batch, change)

        def convert_ids_to_tokens(self, ids):
            return real.convert_ids_to_tokens(ids)

    return Tokenizer()


class SimpleBatch(UserDict):
    def __init__(self, batch, change):
        super().__init__(dict(batch))
        self.encodings = change.get("encodings", batch.encodings)
        self.data |= change.get("data", {})


BATCHES = [
    {"returns": None}, {"returns": 3}, {"returns": "text"}, {"returns": {}}, {"returns": []}, {"returns": object()},
    {"returns": {"input_ids": [[1, 2]]}}, {"encodings": None}, {"encodings": []}, {"encodings": [3]},
    {"data": {"input_ids": None}}, {"data": {"input_ids": []}}, {"data": {"input_ids": [[1]]}},
    {"data": {"input_ids": [["a"] * 5]}}, {"data": {"input_ids": [[10**30] * 5]}}, {"data": {"token_type_ids": None}},
    {"data": {"token_type_ids": [[0]]}}, {"encodings": [SimpleNamespace(offsets=[(0, 1)], sequence_ids=[0])]},
    {"encodings": [SimpleNamespace(offsets=[(0, 1, 2)] * 5, sequence_ids=[0] * 5)]},
    {"encodings": [SimpleNamespace(offsets=[None] * 5, sequence_ids=[0] * 5)]},
    {"encodings": [SimpleNamespace(offsets=[(0, 1)] * 5, sequence_ids=["a"] * 5)]},
    {"data": {"input_ids": [[-5] * 5]}}, {"data": {"input_ids": [[9_999] * 5]}},
]  # fmt: skip


@pytest.mark.parametrize("change", BATCHES, ids=range(len(BATCHES)))
def test_tokenizers_that_return_something_else(change):
    network = fakes.hf_model("bert")
    refused(lambda: troth.explain(troth.load_model(network, tokenizer=words(**change)), TEXT, "random"))


@pytest.mark.parametrize(
    "tokenizer",
    [3, "bert-base-uncased", object(), [], {}, lambda texts: None, torch.nn.Linear(1, 1), str.split, type],
    ids=range(9),
)
def test_what_is_no_tokenizer(tokenizer):
    refused(lambda: troth.explain(troth.load_model(fakes.hf_model("bert"), tokenizer=tokenizer), TEXT, "random"))


def scored(scores, **options):
    return lambda model: Attribution.from_scores(model, TEXT, scores, **options)


def proved(**options):
    return lambda model: troth.prove(model, troth.explain(model, TEXT, "random"), **options)


def written(**options):
    return troth.load_model(fakes.causal_model(), fakes.causal_tokenizer(), **{"prompt": "{text}", **options})


CALLS = {
    "prove(ratio=text)": (proved(ratio="a"), "ratio must be a number, not 'a'"),
    "prove(ratio=NaN)": (proved(ratio=float("nan")), "ratio"),
    "prove(ratio=2)": (proved(ratio=2), "ratio"),
    "prove(choices=text)": (proved(choices="a"), "choices must be a whole number, not 'a'"),
    "prove(choices=1.5)": (proved(choices=1.5), "choices must be a whole number"),
    "prove(choices=True)": (proved(choices=True), "choices must be a whole number"),
    "prove(attributions=texts)": (lambda model: troth.prove(model, ["a"]), "an Attribution"),
    "prove(attributions=mapping of texts)": (lambda model: troth.prove(model, {"a": "b"}), "an Attribution"),
    "prove(attributions=mapping of numbers)": (lambda model: troth.prove(model, {"a": 3}), "attributions"),
    "scores of texts": (scored(["a", "b", "c"]), "scores must be numbers"),
    "scores of numbers as texts": (scored(["1", "2", "3"]), "scores must be numbers"),
    "complex scores": (scored([1j, 2j, 3j]), "scores must be numbers"),
    "huge scores": (scored([1e300, 1.0, 1.0]), "a score is larger than"),
    "huge whole numbers": (scored([10**400, 1, 1]), "scores must be numbers"),
    "infinite scores": (scored([float("inf"), 1.0, 1.0]), "NaN or infinite"),
    "scores of nothing": (scored([None] * 3), "scores must be numbers"),
    "ragged scores": (scored([[1.0], [1.0, 2.0], 3.0]), "scores must be numbers"),
    "a matrix of scores": (scored(np.zeros((3, 3))), "the scores have the shape"),
    "dates as scores": (scored(np.array(["2020-01-01"] * 3, "datetime64[D]")), "scores must be numbers"),
    "one score": (scored(3.0), "scores"),
    "spans of numbers": (scored([1.0], spans=[3]), "a span must be (start, end)"),
    "spans of texts": (scored([1.0], spans=["ab"]), "a span must be (start, end)"),
    "spans of halves": (scored([1.0], spans=[(0.5, 1.5)]), "a span must be (start, end)"),
    "tokens of numbers": (scored([1.0], tokens=[3]), "each of tokens must be text"),
    "explain(texts=numbers)": (lambda model: troth.explain(model, [1, 2], "random"), "item 0 is int"),
    "explain(explainer=numbers)": (lambda model: troth.explain(model, TEXT, [3]), "3 is not an explainer"),
    "explain(units=numbers)": (lambda model: troth.explain(model, TEXT, "random", units=[1, 2]), "units"),
    "explain(target=objects)": (lambda model: troth.explain(model, TEXT, "random", target=[object()]), "target"),
    "measure(metric=numbers)": (lambda model: troth.measure(model, troth.explain(model, TEXT, "random"), [3]), "3"),
    "bench(seeds=texts)": (lambda model: troth.bench(model, [TEXT], ["random"], ["sparsity"], "o", seeds="ab"), "seed"),
    "bench(columns=list)": (lambda model: troth.bench(model, [TEXT], columns=[3]), "columns must be a mapping"),
    "load_model(labels=number)": (lambda model: troth.load_model(len, labels=5), "labels must be a list"),
    "load_model(labels=numbers)": (lambda model: troth.load_model("embedded", labels=[1, 2]), "labels"),
    "load_model(labels=text)": (lambda model: troth.load_model("embedded", labels="ab"), "labels"),
    "load_model(dtype=number)": (lambda model: troth.load_model("embedded", dtype=3), "dtype"),
    "load_model(device=number)": (lambda model: troth.load_model("embedded", device=3), "device"),
    "load_model(class_words=numbers)": (lambda model: written(class_words=[1, 2]), "class"),
    "load_model(class_words=text)": (lambda model: written(class_words="ab"), "class_words must be a list"),
    "load_model(prompt=number)": (lambda model: written(prompt=3, class_words=["a", "b"]), "prompt must be text"),
    "load_model(unknown option)": (lambda model: troth.load_model("embedded", colour=3), "no option of load_model"),
    "load_model(a network)": (lambda model: troth.load_model(torch.nn.Linear(2, 2), len), "not a transformers"),
    "load_model(a class)": (lambda model: troth.explain(troth.load_model(dict), TEXT, "leave_one_out"), "dict"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_were_found(model, here, name):
    call, said = CALLS[name]
    assert said in refused(lambda: call(model))
    assert list(here.iterdir()) == []


def test_a_model_can_be_pickled_before_and_after_it_was_used():
    # Not one that tests share: asked for attentions by itself, a network of transformers keeps hooks.
    model = troth.load_model(fakes.hf_model(), tokenizer=fakes.tokenizer_for("bert"))
    pickle.dumps(model)
    before = troth.explain(model, TEXT, "leave_one_out", progress=False)[0].scores
    again = pickle.loads(pickle.dumps(model))
    assert troth.explain(again, TEXT, "leave_one_out", progress=False)[0].scores.tolist() == before.tolist()
