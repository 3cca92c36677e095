"""Regressions: the value is what is explained and measured; nothing is decided. And what pipelines apply."""

import numpy as np
import pytest
import torch
from scipy.integrate import trapezoid
from transformers import pipeline

import fakes
import troth
from labels import regression
from troth.core import catalog
from troth.core.errors import TrothError
from troth.models import load_model
from troth.report import explanation

TEXT = "a good film with a bad ending"


def test_the_value_is_explained():
    model = regression()
    (attribution,) = troth.explain(model, TEXT, "leave_one_out", progress=False)
    encoding = attribution.question.encoding

    def value(*erased):
        ids = encoding.ids.clone()
        for unit in erased:
            ids[encoding.units == unit] = model.mask_id
        with torch.no_grad():
            return float(model.model(input_ids=ids[None], token_type_ids=encoding.token_types[None]).logits)

    expected = [value() - value(unit) for unit in range(encoding.n_units)]
    np.testing.assert_allclose(attribution.scores, expected, atol=1e-6)
    assert (attribution.labels, attribution.outputs) == (("value",), "values")
    assert attribution.probabilities == pytest.approx((value(),), abs=1e-6)
    for of in ("probability", "log_probability"):  # a value has neither: it is itself
        (same,) = troth.explain(model, TEXT, f"leave_one_out(of={of})", target="value", progress=False)
        assert same.scores.tolist() == attribution.scores.tolist()
    (score,) = troth.measure(model, [attribution], "comprehensiveness(ratio=0.3, masking=mask_token)", progress=False)
    top = np.argsort(-attribution.scores, kind="stable")[:2]
    assert score.value == pytest.approx(value() - value(*top), abs=1e-6)
    assert explanation.heading(attribution) == f"value = {value():.4g}"
    proof = troth.prove(model, [attribution])[0].proof
    assert (proof.predicted_without_top, proof.runner_up, proof.runner_up_probability) == ("", "", None)
    assert f"words: {value():.4g} → " in list(explanation.lines(troth.prove(model, [attribution])[0]))[1]


def test_recursive_erasure_is_of_the_value():
    model = regression()
    found = troth.explain(model, [TEXT, "the soup was cold , the service awful"], "leave_one_out", progress=False)
    scores = troth.measure(model, found, "recursive_erasure(step=0.25)", progress=False)
    metric = catalog.build("metrics", "recursive_erasure(step=0.25)")
    summary = metric.summarize(scores)
    explained, random = (
        np.mean([score.record[f"p_{name}"] for score in scores], axis=0) for name in ("explained", "random")
    )
    area = float(trapezoid(random - explained, dx=0.25))
    assert summary.extra["acu"] == pytest.approx(area) == pytest.approx(np.mean([score.value for score in scores]))
    assert summary.extra["performance"] == "value"


def test_what_needs_classes_refuses_by_name_before_any_work():
    model = regression()
    found = troth.explain(model, TEXT, "leave_one_out", progress=False)
    with pytest.raises(TrothError, match=r"^decision_flip asks which class is predicted, but tiny value gives values"):
        troth.measure(model, found, ["comprehensiveness", "decision_flip"], progress=False)
    with pytest.raises(TrothError, match=r"^decision_flip asks which class is predicted"):
        troth.bench(model, [TEXT], ["random"], ["decision_flip"], progress=False)
    for target in ("positive", "gold", 1):
        with pytest.raises(
            TrothError, match=r"tiny value returns one value \(value\) and has no classes, so .* cannot be explained"
        ):
            troth.explain(model, TEXT, "random", target=target, progress=False)
    with pytest.raises(TrothError, match="has one output, so it cannot choose between classes"):
        load_model(model.model, tokenizer=model.tokenizer, multi_label=False)


def test_stars_of_a_regression_are_no_classes(tmp_path):
    data = troth.load_data([{"text": TEXT, "label": 4}, {"text": "a dull book", "label": 1}])
    found = troth.explain(regression(), data, "random", progress=False)
    assert [each.example.label for each in found] == [None, None]


@pytest.mark.parametrize(
    ("classes", "options", "outputs"),
    [
        (3, {}, "classes"),
        (3, {"function_to_apply": "sigmoid"}, "labels"),
        (3, {"function_to_apply": "softmax", "top_k": None}, "classes"),
        (3, {"top_k": 2}, "classes"),
        (1, {}, "labels"),
    ],
)
def test_pipelines_say_what_they_apply(classes, options, outputs):
    model, tokenizer = fakes.hf_model(classes=classes), fakes.tokenizer_for("bert")
    made = pipeline("text-classification", model=model, tokenizer=tokenizer, **options)
    loaded = load_model(made)
    assert loaded.outputs == outputs
    (attribution,) = troth.explain(loaded, TEXT, "leave_one_out", progress=False)
    own = {entry["label"]: entry["score"] for entry in made(TEXT, top_k=None)}
    ours = {model.config.id2label[index]: value for index, value in enumerate(attribution.probabilities)}
    assert ours == pytest.approx(own, abs=1e-6)


def test_a_pipeline_without_a_function_keeps_what_the_model_says():
    tokenizer, several = fakes.tokenizer_for("bert"), {"problem_type": "multi_label_classification"}
    for options, outputs in (({}, "classes"), (several, "labels"), ({"problem_type": "regression"}, "values")):
        model = fakes.hf_model(**options)
        made = pipeline("text-classification", model=model, tokenizer=tokenizer, function_to_apply="none")
        loaded = load_model(made)
        assert loaded.outputs == outputs
        (found,) = troth.explain(loaded, TEXT, "leave_one_out", target=1, progress=False)
        # What is explained by default is the logit: what this pipeline calls the score.
        raw = [
            entry["score"]
            for text in (TEXT, "a [MASK] film with a bad ending")
            for entry in made(text, top_k=None)
            if entry["label"] == model.config.id2label[1]
        ]
        assert found.scores[1] == pytest.approx(raw[0] - raw[1], abs=1e-5)
