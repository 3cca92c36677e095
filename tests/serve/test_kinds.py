"""Pairs, several labels and language models: the JSON of the command line for each kind of model."""

import json

import pytest

import fakes
from fakes import Lookup, encoder
from labels import LABELS, planted_labels
from retrieval import retriever
from serving import client_of, close
from troth import cite, explain, load_model, prove
from troth.core.results import matrices

TEXT = "a good film was bad"


def plain(by_method):
    """As JSON has it."""
    return json.loads(json.dumps([each.to_dict() for row in zip(*by_method.values(), strict=True) for each in row]))


def test_a_pair_with_units_in_both_texts(tmp_path):
    model, methods = encoder("bert", classes=3), ["leave_one_out", "gradient"]
    with client_of({"bert": model}, tmp_path) as client:
        asked = {"text": "a good film", "text_pair": "the plot was dull", "segments": "both", "explainers": methods}
        answer = client.post("/api/explain", json=asked).json()
    expected = prove(model, explain(model, [("a good film", "the plot was dull")], methods, segments="both"))
    assert answer[0]["segments"] == [0, 0, 0, 1, 1, 1, 1]
    assert close(answer, plain(expected))


def test_labels_above_the_threshold(tmp_path):
    model, text = planted_labels(), "the service was awful , but the film a joy"
    with client_of({"labels": model}, tmp_path) as client:
        asked = {"text": text, "explainers": ["leave_one_out", "gradient"], "target": "above_threshold"}
        answer = client.post("/api/explain", json=asked).json()
        none = client.post("/api/explain", json={**asked, "text": "a film"})
    expected = prove(model, explain(model, text, ["leave_one_out", "gradient"], target="above_threshold"))
    assert sorted({each["target_label"] for each in answer}) == sorted(LABELS)
    assert close(answer, plain(expected))
    assert (none.status_code, none.json()) == (200, [])


def test_a_continuation_token_by_token(tmp_path):
    path = fakes.saved_causal(tmp_path / "gpt2", "gpt2")
    model = load_model(str(path), continuation="the film")
    methods = ["leave_one_out", "input_x_gradient"]
    with client_of({"gpt2": model}, tmp_path) as client:
        asked = {"text": TEXT, "explainers": methods, "target": "each"}
        each = client.post("/api/explain", json=asked).json()
        whole = client.post("/api/explain", json={"text": TEXT, "explainers": ["leave_one_out"]}).json()
        left = client.post("/api/erase", json={"text": TEXT, "keep": [[1, 0, 1, 1, 1]]}).json()
        shown = client.post("/", data={"text": TEXT, "explainers": "leave_one_out"})
    found = explain(model, TEXT, methods, target="each")
    expected = [matrix.to_dict() for several in found.values() for matrix in matrices(several)]
    assert each[0]["targets"] == [" the", " film"]
    assert close(each, json.loads(json.dumps(expected)))
    assert whole[0]["continuation"] == [" the", " film"]
    # The score of a unit is what its erasing takes from the log-probability.
    assert left["whole"][0] - left["probabilities"][0][0] == pytest.approx(whole[0]["scores"][1], abs=1e-4)
    assert shown.status_code == 200


def test_a_prompted_model_has_its_prompt_in_the_answer(tmp_path):
    model = fakes.prompted()
    with client_of({"llm": model}, tmp_path) as client:
        answer = client.post("/api/explain", json={"text": TEXT, "explainers": ["leave_one_out"]}).json()
    expected = prove(model, explain(model, TEXT, ["leave_one_out"]))
    assert any(segment is None and words for segment, words in answer[0]["prompt"])
    assert close(answer, plain(expected))


def test_passages_behind_an_answer(tmp_path):
    """The same as `troth.cite` in Python, with a page; another kind of model is refused by name."""
    model, tokenizer = retriever()
    served = load_model(model, tokenizer=tokenizer, continuation="x")
    passages = {"guide": "The word of the vault is marigold.", "<b>sea": "The sea lies in the south."}
    asked = {"question": "What is the word?", "passages": passages, "answer": "The word of the vault is marigold."}
    with client_of({"retriever": served, "lookup": Lookup({"a": [0, 1]})}, tmp_path) as client:
        answer = client.post("/api/cite", json=asked)
        wrong = client.post("/api/cite", json={**asked, "model": "lookup"})
        empty = client.post("/api/cite", json={**asked, "passages": []})
        described = client.get("/api/about").json()["models"]
    page = answer.json().pop("page")
    found = cite(served, asked["question"], passages, asked["answer"])
    assert close({**answer.json(), "page": page}, {**json.loads(json.dumps(found.to_dict())), "page": page})
    assert answer.json()["cited"] == [1]
    assert "model retriever" in page
    assert "&lt;b&gt;sea" in page
    assert [each["cites"] for each in described] == [True, False]
    assert (wrong.status_code, empty.status_code) == (422, 422)
    assert wrong.json()["error"].startswith("cite asks a causal language model, in memory or behind an endpoint")
