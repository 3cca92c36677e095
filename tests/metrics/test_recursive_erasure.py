import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from asking import STRENGTHS, TEXT, TRUTH, Additive, Fixed, score
from fakes import CORPUS, Lookup, encoder
from troth import explain, measure
from troth.core.errors import TrothError
from troth.core.types import Example, Score
from troth.metrics.recursive_erasure import NEVER_FALLS, RecursiveErasure
from troth.performance import indicators, performance

YES, NO = [0, np.log(3)], [np.log(3), 0]


def test_by_hand():
    model = Lookup({"a b": YES, "[M] b": NO, "a [M]": YES, "[M] [M]": NO})
    found = score(model, "a b", [2, 1], "recursive_erasure(step=0.5)", explainer=Fixed((2.0, 1.0)), label=1)
    assert found.record["ratios"] == [0, 0.5, 1]
    assert found.record["explained"] == [1, 0, 0]
    assert found.record["p_explained"] == pytest.approx([0.75, 0.25, 0.25])
    random = found.record["p_random"][1]  # erases a or b first
    assert random in (pytest.approx(0.25), pytest.approx(0.75))
    assert found.value == pytest.approx((random - 0.25) * 0.5)


def test_explaining_again_is_what_makes_it_recursive():
    # b and c say the same while a is there, so at first neither seems to matter; without a, b is worth more than c.
    table = dict.fromkeys(("a b c", "a [M] c", "a b [M]"), YES)
    table |= dict.fromkeys(("a [M] [M]", "[M] [M] c", "[M] [M] [M]"), NO)
    table |= {"[M] b c": [0, 0.5], "[M] b [M]": [0, -0.5]}
    model = Lookup(table)
    again = score(model, "a b c", [3, 1, 2], "recursive_erasure(step=0.25)", explainer="leave_one_out")
    fixed = score(model, "a b c", [3, 1, 2], "recursive_erasure(step=0.25, recompute=False)")
    # Three quarters of three units are two: a and b where it explains again, a and c where it does not.
    assert again.record["p_explained"][3] == pytest.approx(0.25)
    assert fixed.record["p_explained"][3] == pytest.approx(1 / (1 + np.exp(0.5)))


def recursive_evaluation(model, explainer, encoding, target, step):
    """Algorithm 3: explain what is left, mask step · T more tokens, ask again. Ids are masked by hand."""
    n_units = encoding.n_units
    ids, gone, predictions = encoding.ids.clone(), [], []

    def predict():
        inputs = {"input_ids": ids[None]}
        if encoding.token_types is not None:
            inputs["token_type_ids"] = encoding.token_types[None]
        return model.model(**inputs).logits[0].detach()

    predictions.append(predict())
    for iteration in range(1, round(1 / step) + 1):
        wanted = n_units * round(iteration * step * 10000) // 10000
        scores = explainer(ids, gone, target)
        rest = [unit for unit in sorted(range(n_units), key=lambda unit: -scores[unit]) if unit not in gone]
        gone += rest[: wanted - len(gone)]
        ids = torch.where(torch.isin(encoding.units, torch.tensor(gone, dtype=torch.long)), model.mask_id, encoding.ids)
        predictions.append(predict())
    return torch.stack(predictions)


@pytest.mark.parametrize("family", ["bert", pytest.param("roberta", marks=pytest.mark.full)])
def test_it_is_algorithm_3(family):
    model = encoder(family)
    examples = [Example(id=str(place), text=text, label=place % 3) for place, text in enumerate(CORPUS)]
    attributions = explain(model, examples, "leave_one_out", target="gold", units="token")
    scores = measure(model, attributions, "recursive_erasure(step=0.25)")
    explained = []
    for given, found in zip(attributions, scores, strict=True):
        encoding = given.question.encoding

        def leave_one_out(ids, gone, target, encoding=encoding):
            def logit(ids):
                inputs = {"input_ids": ids[None]}
                if encoding.token_types is not None:
                    inputs["token_type_ids"] = encoding.token_types[None]
                return model.model(**inputs).logits[0, target].item()

            without = [torch.where(encoding.units == unit, model.mask_id, ids) for unit in range(encoding.n_units)]
            return [logit(ids) - logit(one) for one in without]

        expected = recursive_evaluation(model, leave_one_out, encoding, given.target, 0.25)
        assert found.record["label"] == given.example.label
        assert found.record["p_explained"] == pytest.approx(expected.softmax(-1)[:, given.target].tolist(), abs=1e-5)
        explained.append(expected.argmax(-1).tolist())
    summary = RecursiveErasure(step=0.25).summarize(scores)
    labels = np.array([example.label for example in examples])
    assert summary.extra["explained"] == pytest.approx((np.array(explained) == labels[:, None]).mean(0))


def test_the_random_curve_is_that_of_the_random_explainer_of_the_same_seed():
    model = encoder("bert")
    attributions = explain(model, CORPUS[:3], "random", seed=5)
    for found in measure(model, attributions, "recursive_erasure", seed=5):
        assert found.record["p_explained"] == found.record["p_random"]
        assert found.value == 0
    others = [one.record["p_random"] for one in measure(model, attributions, "recursive_erasure", seed=6)]
    assert others != [one.record["p_random"] for one in measure(model, attributions, "recursive_erasure", seed=5)]


# From stored predictions


def stored(generator, count, classes):
    scores = []
    for _ in range(count):
        label = int(generator.integers(classes))
        curves = [
            [
                label if generator.random() > (step / 4) ** power else int(generator.integers(classes))
                for step in range(5)
            ]
            for power in (0.5, 3)
        ]
        record = {"ratios": [0, 0.25, 0.5, 0.75, 1], "label": label, "explained": curves[0], "random": curves[1]}
        scores.append(Score(0.0, record))
    return scores


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("accuracy", accuracy_score),
        ("macro_f1", lambda true, guess: f1_score(true, guess, average="macro")),
        ("micro_f1", lambda true, guess: f1_score(true, guess, average="micro")),
        ("matthews", matthews_corrcoef),
    ],
)
def test_racu_and_its_interval_are_what_resampling_examples_gives(name, metric):
    generator = np.random.default_rng(1)
    scores = stored(generator, 40, 3)
    labels = np.array([one.record["label"] for one in scores])
    curves = {curve: np.array([one.record[curve] for one in scores]) for curve in ("explained", "random")}

    def areas(chosen, metric=metric):
        p, b = (
            [metric(labels[chosen], curves[curve][chosen, i]) for i in range(5)] for curve in ("explained", "random")
        )
        acu = sum(0.25 * ((b[i] - p[i]) + (b[i + 1] - p[i + 1])) / 2 for i in range(4))
        most = sum(0.25 * ((b[i] - b[4]) + (b[i + 1] - b[4])) / 2 for i in range(4))
        return acu, acu / most

    summary = RecursiveErasure(performance=name).summarize(scores)
    acu, racu = areas(np.arange(40))
    assert summary.value == pytest.approx(racu)
    assert summary.extra["acu"] == pytest.approx(acu)

    def quick(true, guess):
        return performance(name, indicators(true, guess, 3).mean(0))  # tests/metrics/test_performance.py has it checked

    drawn = np.array([areas(generator.integers(0, 40, 40), quick) for _ in range(300)])
    for (low, high), column in ((summary.extra["acu_interval"], 0), ((summary.low, summary.high), 1)):
        width = np.quantile(drawn[:, column], 0.975) - np.quantile(drawn[:, column], 0.025)
        assert high - low == pytest.approx(width, rel=0.35)  # the slow loop draws few and corrects nothing
        assert low < (acu, racu)[column] < high


def test_a_random_curve_that_never_falls_leaves_racu_undefined():
    record = {"ratios": [0, 0.5, 1], "label": 1, "explained": [1, 0, 1], "random": [1, 1, 1]}
    summary = RecursiveErasure().summarize([Score(0.1, record)] * 3)
    assert np.isnan([summary.value, summary.low, summary.high]).all()
    assert summary.undefined == {NEVER_FALLS: 3}
    assert summary.extra["acu"] == pytest.approx(0.5)  # the plain area is still defined
    assert summary.count == 3


def test_labels_may_be_names_and_without_one_the_prediction_counts():
    model = Additive(STRENGTHS)
    named = score(model, TEXT, TRUTH, "recursive_erasure", explainer="random", label="no")
    assert named.record["label"] == 0
    assert score(model, TEXT, TRUTH, "recursive_erasure", explainer="random").record["label"] == 1
    with pytest.raises(TrothError, match="no class is like 'maybe'"):
        score(model, TEXT, TRUTH, "recursive_erasure", explainer="random", label="maybe")


def test_undefined_and_errors():
    model = Additive(STRENGTHS)
    assert score(model, "", [], "recursive_erasure", explainer="random").why == "the text has no units"
    assert np.isnan(RecursiveErasure().summarize([score(model, "", [], "recursive_erasure", explainer="random")]).value)
    with pytest.raises(TrothError, match="step must divide 1"):
        RecursiveErasure(step=0.3)
    with pytest.raises(TrothError, match="recursive_erasure explains the text again"):
        score(model, TEXT, TRUTH, "recursive_erasure")
    assert score(model, "great", [1], "recursive_erasure", explainer="random").value == 0  # one unit: both curves alike
