"""Zero-shot classification: the pipeline's own numbers, the hypothesis never erased, gradients that sum up."""

import numpy as np
import pytest
import torch
from transformers import ZeroShotClassificationPipeline

import fakes
import troth
from labels import planted_labels
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.models import load_model

NAMES = {0: "contradiction", 1: "neutral", 2: "entailment"}
CANDIDATES = ["good", "a bad film", "so dull"]
TEXT = "a good film but slow"


def nli(family="bert", names=NAMES):
    model = fakes.hf_model(family, classes=len(names))
    model.config.id2label, model.config.label2id = names, {name: index for index, name in names.items()}
    return ZeroShotClassificationPipeline(model=model, tokenizer=fakes.tokenizer_for(family))


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
@pytest.mark.parametrize("names", [NAMES, {0: "ENTAILMENT", 1: "not_entailment"}], ids=["three", "two"])
@pytest.mark.parametrize("multi_label", [False, True])
def test_the_pipelines_own_numbers(family, names, multi_label):
    made = nli(family, names)
    model = load_model(made, candidate_labels=CANDIDATES, multi_label=multi_label)
    texts = [TEXT, "is it bad ?"]  # of two lengths: the shorter one is padded
    found = troth.explain(model, texts, "leave_one_out", progress=False)
    for text, attribution in zip(texts, found, strict=True):
        own = made(text, candidate_labels=CANDIDATES, multi_label=multi_label)
        ours = dict(zip(model.labels, attribution.probabilities, strict=True))
        assert ours == pytest.approx(dict(zip(own["labels"], own["scores"], strict=True)), abs=1e-6)
        assert model.labels[attribution.target] == own["labels"][0]
    assert model.outputs == ("labels" if multi_label else "classes")


@pytest.mark.parametrize("masking", ["mask_token", "delete"])
def test_leave_one_out_is_what_the_pipeline_says_of_the_shorter_text(masking):
    made = nli()
    model = load_model(made, candidate_labels=CANDIDATES)
    method = "leave_one_out(of=probability)"
    (found,) = troth.explain(model, TEXT, method, target="so dull", masking=masking, progress=False)

    def score(text):
        own = made(text, candidate_labels=CANDIDATES)
        return own["scores"][own["labels"].index("so dull")]

    words = TEXT.split()
    for unit in range(len(words)):
        filler = ["[MASK]"] if masking == "mask_token" else []
        shorter = " ".join([*words[:unit], *filler, *words[unit + 1 :]])
        assert found.scores[unit] == pytest.approx(score(TEXT) - score(shorter), abs=1e-6)


def test_the_hypothesis_is_in_no_unit_and_stays_whole():
    model = load_model(nli(), candidate_labels=CANDIDATES)
    (encoding,) = model.encode([Example("0", TEXT)])
    assert list(encoding.unit_texts) == TEXT.split()
    read = []
    forward = model.model.forward

    def watched(**inputs):
        read.append(inputs)
        return forward(**inputs)

    troth.explain(model, TEXT, "leave_one_out", masking="delete", progress=False)  # on first use it reads other texts
    model.model.forward = watched
    troth.explain(model, TEXT, "leave_one_out", masking="delete", progress=False)
    endings = [
        model.tokenizer(f"This example is {label}.", add_special_tokens=False)["input_ids"] for label in CANDIDATES
    ]
    seen = set()
    for inputs in read:
        if "input_ids" not in inputs:  # it is tried whether vectors can be padded, too
            continue
        mask = inputs["attention_mask"]
        for row, ids in enumerate(inputs["input_ids"]):
            real = ids if mask is None else ids[mask[row].bool()]
            ending = next(ending for ending in endings if real[-1 - len(ending) : -1].tolist() == ending)
            seen.add(tuple(ending))
            assert inputs["token_type_ids"][row][len(real) - 1] == 1
    assert len(seen) == len(CANDIDATES)


@pytest.mark.parametrize("multi_label", [False, True])
def test_gradients_sum_to_the_change(multi_label):
    model = load_model(nli(), candidate_labels=CANDIDATES, multi_label=multi_label)
    spec = "integrated_gradients(steps=64, rule=gauss_legendre, of=probability)"
    found = troth.explain(model, [TEXT, "is it bad ?"], spec, target=1, progress=False)
    assert max(abs(each.gap) for each in found) < 1e-4
    assert all(np.abs(each.scores).max() > 1e-3 for each in found)


def test_a_planted_word_is_found_for_the_label_that_asks_for_it():
    """The hypothesis holds the word that the model looks for only where its label is the word's."""
    planted = planted_labels().model
    planted.config.id2label, planted.config.label2id = {0: "no", 1: "entailment"}, {"no": 0, "entailment": 1}
    planted.config.problem_type = None
    model = load_model(planted, tokenizer=fakes.tokenizer_for("bert"), candidate_labels=["the soup", "the bill"])
    for method in ("leave_one_out", "integrated_gradients", "kernel_shap(samples=100)"):
        (found,) = troth.explain(model, "the film a joy to use", f"{method}", target=0, progress=False)
        assert found.units[int(found.scores.argmax())] == "joy"


def test_from_a_folder_with_a_template_and_back(tmp_path):
    made = nli()
    made.model.save_pretrained(tmp_path)
    made.tokenizer.save_pretrained(tmp_path)
    template = "the film is {} !"
    model = load_model(str(tmp_path), candidate_labels=CANDIDATES, hypothesis_template=template, device="cpu")
    (found,) = troth.explain(model, TEXT, "leave_one_out", progress=False)
    own = made(TEXT, candidate_labels=CANDIDATES, hypothesis_template=template)
    assert max(found.probabilities) == pytest.approx(own["scores"][0], abs=1e-6)
    again = load_model(str(tmp_path), device="cpu", **model.spec)
    assert again.fingerprint == model.fingerprint
    assert load_model(str(tmp_path), candidate_labels=CANDIDATES, device="cpu").fingerprint != model.fingerprint
    bound = ZeroShotClassificationPipeline(
        model=made.model, tokenizer=made.tokenizer, candidate_labels="good, bad", multi_label=True
    )
    assert (load_model(bound).labels, load_model(bound).outputs) == (("good", "bad"), "labels")


def test_long_texts_leave_room_for_the_longest_hypothesis():
    model = load_model(nli(), candidate_labels=["good", "a bad film with a great cast and a bad ending"])
    (found,) = troth.explain(model, "a good film " * 40, "leave_one_out", progress=False)
    assert found.question.encoding.truncated > 0
    ids = len(found.question.encoding.ids)
    assert ids + max(len(own) for own, _ in model._hypotheses) == 64


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_model(nli()), "needs labels to choose from: candidate_labels="),
        (lambda: load_model(nli(), candidate_labels=["a", "a"]), "candidate_labels contains a label twice: a, a"),
        (lambda: load_model(nli(), candidate_labels=[" "]), "candidate_labels must be a list of words"),
        (lambda: load_model(nli(), candidate_labels=["a", "b"], threshold=0.3), "threshold needs a multi-label"),
        (
            lambda: load_model(nli(), candidate_labels=["a"], hypothesis_template="It is."),
            "hypothesis_template must contain",
        ),
        (
            lambda: load_model(fakes.hf_model(), tokenizer=fakes.tokenizer_for("bert"), candidate_labels=["a", "b"]),
            "has no class called entailment (LABEL_0, LABEL_1, LABEL_2), so it is not an NLI model",
        ),
        (
            lambda: troth.explain(load_model(nli(), candidate_labels=["a", "b"]), [("a film", "a book")], "random"),
            "example 0 has a second text",
        ),
        (
            lambda: troth.explain(load_model(nli(), candidate_labels=["a", "b"]), TEXT, "attention"),
            "asked once per candidate label, has no attentions",
        ),
    ],
)
def test_bad_input_is_one_clear_line(call, message):
    with pytest.raises(TrothError) as caught, torch.no_grad():
        call()
    assert message in str(caught.value)
