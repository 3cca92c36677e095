"""A check erases exactly what recursive_erasure erases: the same class explained, the same order, once or again."""

import pytest
from tests.validity.test_checking import sentences

import troth
from fakes import encoder
from troth.core.types import Example
from troth.data import load_data
from troth.engine.prober import Prober
from troth.metrics import recursive_erasure
from troth.validity import checking
from troth.verbs.measure import measure_each

EXPLAINERS = ["leave_one_out", "input_x_gradient(absolute=true)", "beam_search(width=2)"]


@pytest.fixture
def erased(monkeypatch):
    """What each of the two left of every example, in the order in which they finished."""
    found = {checking: [], recursive_erasure: []}

    def listen(module):
        original = module.recursively_erased

        def listening(questions, *others):
            keep = yield from original(questions, *others)
            for question, left in zip(questions, keep, strict=True):
                kept = left[:, : question.n_units].tolist()
                found[module].append((question.encoding.example.id, question.target, kept))
            return keep

        monkeypatch.setattr(module, "recursively_erased", listening)

    for module in found:
        listen(module)
    return found


def labeled(model):
    """Texts with the class the model does not predict, with the one it predicts, and without a label."""
    texts = [example.text for example in sentences(6, seed=1)]
    predicted = [attribution.target for attribution in troth.explain(model, texts, "random")]
    labels = [(predicted[0] + 1) % 3, (predicted[1] + 2) % 3, predicted[2], predicted[3], None, None]
    return [
        Example(str(place), text, label=label) for place, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]


@pytest.mark.parametrize("explainer", EXPLAINERS)
def test_the_check_erases_what_the_metric_erases(erased, explainer):
    model = encoder()
    examples = labeled(model)
    checking.check(model, load_data(examples), sentences(40, seed=2), [explainer], step=0.25)
    for example in examples:
        (attribution,) = troth.explain(model, [example], explainer, target="predicted")
        troth.measure(model, [attribution], "recursive_erasure(step=0.25)")
    explained = erased[recursive_erasure][::2]  # the random baseline is next to each
    assert sorted(erased[checking]) == sorted(explained)
    targets = {example_id: target for example_id, target, _ in erased[checking]}
    assert all(targets[example.id] == example.label for example in examples if example.label is not None)


def test_what_is_explained_is_kept_with_the_check():
    model = encoder()
    examples, validation = load_data(labeled(model)), sentences(40, seed=2)
    assert checking.check(model, examples, validation, step=0.5).to_dict()["target"] == "gold or predicted"
    assert checking.check(model, examples, validation, step=0.5, target="predicted").target == "predicted"


def test_an_explainer_that_is_recursive_by_itself_is_asked_once():
    model = encoder()
    attributions = troth.explain(model, sentences(3, seed=1), "beam_search(width=2)")

    def measured(spec):
        prober = Prober(model)
        scores = list(measure_each(prober, attributions, spec))
        return [score.record["p_explained"] for score in scores], prober.cost.forward

    usual = measured("recursive_erasure(step=0.25)")
    assert usual == measured("recursive_erasure(step=0.25, recompute=false)")
    assert usual[1] < measured("recursive_erasure(step=0.25, recompute=true)")[1]
