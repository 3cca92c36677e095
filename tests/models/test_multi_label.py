"""Multi-label models: every label is a yes/no question of its own, explained and measured by its own probability."""

import math

import numpy as np
import pytest
import torch
from captum.attr import FeatureAblation
from captum.attr import IntegratedGradients as Referee

import fakes
import troth
from labels import LABELS, WORDS, LabelLookup, planted_labels, random_labels
from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Attribution, Example
from troth.engine.prober import Prober
from troth.models import load_model
from troth.models.encoder import Encoder
from troth.report import explanation
from troth.verbs.explain import explanations

TEXT = "the service was awful , but the film a joy"
METHODS = [
    "leave_one_out", "integrated_gradients", "input_x_gradient", "lime(samples=200)", "kernel_shap(samples=200)",
    "deep_lift", "gradient_shap", "decomp_x",
]  # fmt: skip


def fails(call, *arguments, **options):
    with pytest.raises(TrothError) as caught:
        call(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize("method", METHODS)
def test_each_label_finds_its_own_word(method):
    found = troth.explain(planted_labels(), TEXT, method, target=list(LABELS), progress=False)
    assert [attribution.label(attribution.target) for attribution in found] == list(LABELS)
    for label, attribution in zip(LABELS, found, strict=True):
        assert attribution.units[int(attribution.scores.argmax())] == WORDS[label]
    assert all(min(attribution.probabilities) > 0.5 for attribution in found)  # both hold: a softmax could not say so


def test_probabilities_are_sigmoids_and_metrics_ask_for_the_label_alone():
    model = random_labels()
    (attribution,) = troth.explain(model, TEXT, "leave_one_out", target=3, progress=False)
    ids = attribution.question.encoding.ids[None]
    types = attribution.question.encoding.token_types[None]
    with torch.no_grad():
        logits = model.model(input_ids=ids, token_type_ids=types).logits[0].double()
    np.testing.assert_allclose(attribution.probabilities, 1 / (1 + np.exp(-logits.numpy())), atol=1e-6)
    table = {
        "good film": [0.9, 0.4],
        "[M] film": [0.2, 0.4],
        "film": [0.2, 0.4],
        "": [0.1, 0.1],
        "good [M]": [0.9, 0.3],
    }
    lookup = LabelLookup(table)
    attributions = troth.explain(lookup, "good film", "leave_one_out(of=probability)", target=[0, 1], progress=False)
    assert attributions[0].scores.tolist() == pytest.approx([0.7, 0.0], abs=1e-6)
    assert attributions[1].scores.tolist() == pytest.approx([0.0, 0.1], abs=1e-6)
    scores = troth.measure(lookup, attributions[:1], "comprehensiveness(ratio=0.5)", progress=False)
    assert scores[0].value == pytest.approx(0.9 - 0.2, abs=1e-6)
    odds = troth.measure(lookup, attributions[:1], "log_odds(ratio=0.5)", progress=False)
    assert odds[0].value == pytest.approx(math.log(0.2 / 0.9), abs=1e-6)


def test_a_decision_flips_where_the_label_falls_below_the_threshold():
    table = {
        "a b c d": [0.9, 0.9], "b c d": [0.7, 0.1], "c d": [0.45, 0.1], "d": [0.2, 0.1], "": [0.1, 0.1],
    }  # fmt: skip
    for threshold, expected in ((0.5, 0.5), (0.8, 0.25), (0.15, 1.0)):
        model = LabelLookup(table, threshold=threshold)
        attribution = Attribution.from_scores(model, "a b c d", [4, 3, 2, 1], target="rude")
        (score,) = troth.measure(model, [attribution], "decision_flip(step=0.25)", progress=False)
        assert score.value == pytest.approx(expected)  # the other label's fall at the first step changes nothing
        assert score.record["predictions"] == [int(row[0] > threshold) for row in table.values()]


def test_recursive_erasure_asks_whether_the_label_holds():
    model = planted_labels()
    examples = [Example("both", TEXT, label=["rude", "warm"]), Example("warm", "the film was a joy", label=["warm"])]
    found = troth.explain(model, examples, "leave_one_out", target="rude", progress=False)
    both, warm = troth.measure(model, found, "recursive_erasure(step=0.5)", progress=False)
    assert (both.record["label"], warm.record["label"]) == (1, 0)  # whether "rude" is among the gold labels
    assert both.record["target"] == warm.record["target"] == 0  # and not another label, though gold is another
    assert both.record["explained"] == [1, 0, 0]  # half of the words gone, "awful" among them
    assert warm.record["explained"] == [0, 0, 0]


@pytest.mark.parametrize("method", ["leave_one_out", "lime(samples=50)", "kernel_shap(samples=60)"])
def test_five_labels_cost_one_set_of_passes(method):
    model = random_labels()
    text = " ".join(["a good film with a great cast and a bad ending"] * 4)
    (encoding,) = model.encode([Example("0", text)])
    costs = []
    for targets in ([2], [0, 1, 2, 3, 4]):
        prober = Prober(model)
        pairs = [(encoding, target) for target in targets]
        found = prober.ask(explanations(model, catalog.build("explainers", method), pairs))
        costs.append((prober.cost.forward, prober.cost.backward))
    assert costs[0] == costs[1]
    assert method != "leave_one_out" or costs[0] == (1 + encoding.n_units, 0)  # the whole text once
    (alone,) = troth.explain(model, text, method, target=2, progress=False)
    np.testing.assert_allclose(found[2].scores, alone.scores, atol=1e-6)


@pytest.mark.parametrize("method", ["lime(samples=40)", "beam_search(width=2)", "integrated_gradients(steps=4)"])
def test_the_same_together_as_alone(method):
    model = random_labels()
    texts = ["a good film with a bad ending", "why would anyone pay for this ?"]
    together = troth.explain(model, texts, method, target=[0, 4], progress=False)
    assert [(each.example.id, each.target) for each in together] == [("0", 0), ("0", 4), ("1", 0), ("1", 4)]
    for place, target in enumerate((0, 4)):
        alone = troth.explain(model, texts, method, target=target, progress=False)
        for one, other in zip(together[place::2], alone, strict=True):
            np.testing.assert_allclose(one.scores, other.scores, atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_captum_says_the_same_of_each_label(family):
    """To 1e-5, and of the label's own probability: a softmax over the labels would give other numbers."""
    model = random_labels(4, family)
    text = "a good film , not a bad book"
    ablated = troth.explain(model, text, "leave_one_out(of=probability)", target=[0, 1, 2, 3], progress=False)
    path = "integrated_gradients(steps=10, of=probability)"
    integrated = troth.explain(model, text, path, target=[0, 1, 2, 3], progress=False)
    encoding = ablated[0].question.encoding
    extra = {} if encoding.token_types is None else {"token_type_ids": encoding.token_types[None]}
    groups = encoding.units[None] + 1
    first = [int((encoding.units == unit).nonzero()[0]) for unit in range(encoding.n_units)]
    vectors = model.embed(encoding.ids[None]).detach()
    start = torch.where((encoding.units >= 0)[None, :, None], 0, vectors)

    def from_ids(ids):
        with torch.no_grad():
            return model.model(input_ids=ids, **extra).logits.sigmoid()

    def from_vectors(inputs):
        types = {name: part.expand(len(inputs), -1) for name, part in extra.items()}
        return model.model(inputs_embeds=inputs, **types).logits.sigmoid()

    for label in range(4):
        scores = FeatureAblation(from_ids).attribute(
            encoding.ids[None], baselines=model.mask_id, target=label, feature_mask=groups
        )[0]
        np.testing.assert_allclose(ablated[label].scores, scores[first].numpy(), atol=1e-5)
        parts = Referee(from_vectors).attribute(vectors, start, target=label, n_steps=10, method="riemann_right")
        summed = encoding.per_unit(parts[0].sum(-1).detach())
        np.testing.assert_allclose(integrated[label].scores, summed.numpy(), atol=1e-5)


def test_all_labels_above_the_threshold():
    model = planted_labels()
    texts = [TEXT, "the film was a joy", "the soup was cold"]
    found = troth.explain(model, texts, "leave_one_out", target="above_threshold", progress=False)
    held = [(each.example.id, each.label(each.target)) for each in found]
    assert sorted(held) == [("0", "rude"), ("0", "warm"), ("1", "warm")]  # nothing of a text of which none holds
    strict = load_model(model.model, tokenizer=model.tokenizer, labels=LABELS, threshold=0.999)
    assert troth.explain(strict, texts, "leave_one_out", target="above_threshold", progress=False) == []
    several = troth.explain(model, texts, ["random", "leave_one_out"], target="above_threshold", progress=False)
    assert [each.target for each in several["random"]] == [each.target for each in several["leave_one_out"]]


def test_gold_is_every_label_of_the_example():
    model = planted_labels()
    examples = [
        Example("0", TEXT, label={"warm", "rude"}), Example("1", TEXT, label=()), Example("2", TEXT, label="Warm"),
    ]  # fmt: skip
    found = troth.explain(model, examples, "random", target="gold", progress=False)
    assert [(each.example.id, each.target) for each in found] == [("0", 0), ("0", 1), ("2", 1)]
    assert examples[0].label == ("rude", "warm")


def test_the_proof_is_about_the_label():
    model = planted_labels()
    methods = {"good": "leave_one_out", "chance": "random"}
    found = troth.explain(model, TEXT, methods, target=list(LABELS), progress=False)
    proved = troth.prove(model, found, ratio=0.1)
    for place, label in enumerate(LABELS):
        proof = proved["good"][place].proof
        assert proof.probability == pytest.approx(found["good"][place].probabilities[place], abs=1e-6)
        assert (proof.predicted_without_top, proof.without_top < 0.5) == (f"not {label}", True)
    # Explanations of one label compete with each other, not with those of the other label.
    shown = list(explanation.lines(proved["good"][0]))[1]
    assert shown.startswith("Without its top ")
    html = proved["good"][1]._repr_html_()
    assert "warm: yes (" in html
    assert "runner-up" not in html
    facts = proved["good"][1].to_dict()
    assert (facts["outputs"], facts["threshold"], facts["target_label"]) == ("labels", 0.5, "warm")
    assert Attribution.from_dict(facts).is_predicted


def test_a_function_that_gives_independent_probabilities():
    def predict(texts):
        return [[0.9 if word in text.split() else 0.1 for word in WORDS.values()] for text in texts]

    model = load_model(predict, labels=LABELS, multi_label=True)
    for label, attribution in zip(
        LABELS, troth.explain(model, TEXT, "leave_one_out", target=list(LABELS)), strict=True
    ):
        assert attribution.units[int(attribution.scores.argmax())] == WORDS[label]
        assert attribution.probabilities == pytest.approx((0.9, 0.9), abs=1e-6)
        assert attribution.scores.max() == pytest.approx(2 * math.log(9), abs=1e-4)  # logit 0.9 − logit 0.1
    certain = load_model(lambda texts: [[1.0, 0.0]] * len(texts), multi_label=True)
    (sure,) = troth.explain(certain, "a film", "leave_one_out", progress=False)
    assert sure.probabilities == pytest.approx((1, 0))
    assert np.isfinite(sure.scores).all()


def test_scikit_learn():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline

    texts = ["awful film", "a joy", "awful joy", "a film", "the film", "awful", "joy", "joy of a film"]
    held = np.array([[word in text for word in WORDS.values()] for text in texts], int)
    fitted = make_pipeline(CountVectorizer(), OneVsRestClassifier(LogisticRegression(C=100))).fit(texts, held)
    model = load_model(fitted, labels=LABELS, multi_label=True)
    found = troth.explain(model, "an awful joy of a film", "leave_one_out", target=list(LABELS), progress=False)
    assert [each.units[int(each.scores.argmax())] for each in found] == list(WORDS.values())
    assert found[0].probabilities == pytest.approx(fitted.predict_proba(["an awful joy of a film"])[0], abs=1e-6)


def test_the_fingerprint_tells_meanings_and_thresholds_apart():
    model, tokenizer = fakes.hf_model(), fakes.tokenizer_for("bert")
    ways = [{}, {"multi_label": True}, {"multi_label": True, "threshold": 0.3}]
    loaded = [load_model(model, tokenizer=tokenizer, **options) for options in ways]
    assert len({each.fingerprint for each in loaded}) == 3
    assert [each.spec for each in loaded] == ways
    assert loaded[0].fingerprint == fakes.encoder().fingerprint  # of its weights alone, as ever
    again = load_model(model, tokenizer=tokenizer, **loaded[2].spec)
    assert again.fingerprint == loaded[2].fingerprint


def test_bad_input_is_one_clear_line():
    model = planted_labels()
    explain = troth.explain
    assert fails(explain, model, TEXT, "random", target="rud").startswith(
        "no label is called 'rud'; did you mean rude? there are: rude, warm"
    )
    assert "target contains 'rude' twice" in fails(explain, model, TEXT, "random", target=["rude", "rude"])
    assert "target must be" in fails(explain, model, TEXT, "random", target=["rude", None])
    assert "target is an empty list" in fails(explain, model, TEXT, "random", target=[])
    assert "no class is called 'x'" in fails(explain, fakes.encoder(), TEXT, "random", target=["LABEL_0", "x"])
    assert "above_threshold needs a multi-label model" in fails(
        explain, fakes.encoder(), TEXT, "random", target="above_threshold"
    )
    for threshold in (0, 1, -0.5, 7, "high", True):
        assert fails(random_labels, threshold=threshold) == (
            f"threshold must lie between 0 and 1, such as 0.3, not {threshold}"
        )
    assert "threshold needs a multi-label model; tiny returns classes that exclude each other" in fails(
        Encoder, fakes.hf_model(), fakes.tokenizer_for("bert"), name="tiny", threshold=0.4
    )
    one_class = troth.load_data([{"text": "a film", "label": ["LABEL_0", "LABEL_1"]}])
    assert fails(explain, fakes.encoder(), one_class, "random").startswith(
        "example 0 has a set of labels (LABEL_0|LABEL_1), but the classes of tiny bert exclude each other; give it one"
    )
    assert "example 0 has a set of labels" in fails(
        explain, fakes.encoder(), [Example("0", "a film", label=[0, 1])], "random", target="gold"
    )
    assert "attributive_masking needs a model that predicts one of several classes" in fails(
        explain, model, TEXT, f"attributive_masking(checkpoint={fakes.checkpoint(labels=LABELS)!r})"
    )
    logits = load_model(lambda texts: [[2.0, -1.0]] * len(texts), multi_label=True)
    assert "must return a probability from 0 to 1 for each label" in fails(explain, logits, TEXT, "leave_one_out")
