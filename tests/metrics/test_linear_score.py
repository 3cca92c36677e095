from math import comb

import numpy as np
import pytest
import torch
from scipy.special import logit
from scipy.stats import spearmanr

from asking import STRENGTHS, TEXT, TRUTH, Additive, attribution, score
from fakes import CORPUS, Lookup, encoder, partly_erased
from labels import LabelLookup, regression
from troth import explain, measure
from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Attribution, Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import Probe
from troth.metrics import formulas, never
from troth.metrics.linear_score import LinearScore
from troth.models import load_model

MODEL = Additive(STRENGTHS)
LONG = "the soup was cold the service awful the bill absurd but a good film with a great cast and a bad ending"


def linear(text, seed):
    """A linear model with random weights of its words, and the weight of each word of the text."""
    words = sorted(set(text.split()))
    weights = dict(zip(words, np.random.default_rng(seed).normal(size=len(words)), strict=True))
    return Additive(weights, bias=0.3), [weights[word] for word in text.split()]


def test_the_formula_by_hand():
    kept = [[0, 0], [1, 0], [0, 1], [1, 1]]
    # Sums 0, 2, 1, 3 have the ranks 1, 3, 2, 4; squared differences 1, 1, 1, 1: 1 − 6 · 4 / (4 · 15)
    assert formulas.linear_score([2, 1], kept, [5, 7, 6, 8]) == 1
    assert formulas.linear_score([2, 1], kept, [-5, -7, -6, -8]) == -1
    assert formulas.linear_score([2, 1], kept, [6, 8, 5, 7]) == pytest.approx(1 - 6 * 4 / 60)
    # Sums 0, 1, 1, 2 share rank 2.5: Pearson's of (1, 2.5, 2.5, 4) with (1, 2, 3, 4) is 4.5 / √(4.5 · 5)
    assert formulas.linear_score([1, 1], kept, [5, 6, 7, 8]) == pytest.approx(4.5 / np.sqrt(4.5 * 5))
    assert np.isnan(formulas.linear_score([0, 0], kept, [5, 6, 7, 8]))
    assert np.isnan(formulas.linear_score([2, 1], kept, [5, 5, 5, 5]))
    assert np.isnan(formulas.linear_score([2, 1], np.zeros((0, 2)), []))


def test_the_formula_is_scipys_spearman():
    generator = np.random.default_rng(0)
    for _ in range(20):
        kept = generator.random((40, 7)) < 0.5
        log_odds = generator.normal(size=40).round(1)  # with ties
        for scores in (generator.normal(size=7), np.arange(7) ** 2):
            expected = spearmanr(kept @ scores, log_odds).statistic
            assert formulas.linear_score(scores, kept, log_odds) == pytest.approx(expected, abs=1e-6)


def test_rounding_errors_are_ties():
    kept = [[1, 1, 0], [0, 0, 1], [0, 0, 0], [1, 1, 1]]
    assert 0.1 + 0.2 != 0.3
    assert formulas.linear_score([0.1, 0.2, 0.3], kept, [2.0, 2.0, 1.0, 3.0]) == 1


@pytest.mark.parametrize("seed", range(5))
def test_it_is_1_on_a_linear_model_with_its_weights(seed):
    model, weights = linear(LONG, seed)
    scaled = [7 * weight for weight in weights]
    for metric in (
        "linear_score",
        "linear_score(samples=500)",
        "linear_score(masking=delete)",
        "linear_score(size=any)",
    ):
        assert score(model, LONG, weights, metric, seed=seed).value == pytest.approx(1)
        assert score(model, LONG, scaled, metric, seed=seed).value == pytest.approx(1)
        assert score(model, LONG, [-weight for weight in weights], metric, seed=seed).value == pytest.approx(-1)


def test_a_confident_linear_model_is_read_in_log_odds():
    # All probabilities of the target round to 1 in single precision, so the model would look constant by them.
    words = LONG.split()
    weights = dict(zip(words, np.linspace(0.5, 1.5, len(words)), strict=True))
    model = Additive(weights, bias=40.0)
    assert score(model, LONG, [weights[word] for word in words], "linear_score").value == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("lowest", [-1.0, 0.0])
def test_random_scores_give_about_0(lowest):
    # Every word supports the class, so the log-odds rise with the number of units kept.
    words = LONG.split()
    model = Additive(dict(zip(words, np.linspace(0.5, 1.5, len(words)), strict=True)))
    drawn = np.random.default_rng(1).uniform(lowest, 1, size=(200, len(words)))
    given = [attribution(model, LONG, one) for one in drawn]
    found = [each.value for each in measure(model, given, "linear_score")]
    assert abs(np.mean(found)) < 3 * np.std(found) / np.sqrt(200)
    assert 0.1 < np.std(found) < 0.4
    any_size = np.mean([each.value for each in measure(model, given, "linear_score(size=any)")])
    assert any_size > 0.5 if lowest == 0 else abs(any_size) < 0.1  # what ContextCite's subsets give


def slow(model, given, samples, size="half"):
    """From the definition: subset by subset, probabilities by a softmax, SciPy's correlation."""
    encoding, present = given.question.encoding, given.question.left.tolist()
    units = [unit for unit in range(encoding.n_units) if present[unit]]
    every = [[unit for place, unit in enumerate(units) if code >> place & 1] for code in range(2 ** len(units))]
    subsets = [subset for subset in every if size == "any" or len(subset) == len(units) // 2]
    if len(subsets) > samples:
        numbers = given.question.draws("linear_score").uniforms(samples, encoding.n_units).tolist()
        subsets = [[unit for unit in units if row[unit] < 0.5] for row in numbers]
        if size == "half":
            subsets = [sorted(units, key=lambda unit, row=row: row[unit])[: len(units) // 2] for row in numbers]
    sums, log_odds = [], []
    for subset in subsets:
        gone = (encoding.units >= 0) & ~torch.isin(encoding.units, torch.tensor(subset))
        ids = torch.where(gone, model.mask_id, encoding.ids)
        logits = model.model(input_ids=ids[None], token_type_ids=encoding.token_types[None]).logits[0].double()
        sums.append(sum(given.scores[unit].item() for unit in subset))
        log_odds.append(logit(logits.softmax(-1)[given.target].item()))
    return spearmanr(sums, log_odds).statistic


@pytest.mark.parametrize(("samples", "size"), [(9, "half"), (64, "half"), (300, "half"), (64, "any")])
def test_it_is_the_loop_over_subsets(samples, size):
    model = encoder("bert")
    attributions = explain(model, ["a good film", *CORPUS[:3]], "input_x_gradient")
    scores = measure(model, attributions, LinearScore(samples, size))
    for given, found in zip(attributions, scores, strict=True):
        assert found.value == pytest.approx(slow(model, given, samples, size), abs=2e-3)
        n_units = given.question.n_units
        assert found.record["subsets"] == min(samples, comb(n_units, n_units // 2) if size == "half" else 2**n_units)


def test_units_that_were_erased_before_are_neither_kept_nor_counted():
    model = encoder("bert")
    question = partly_erased(model)
    encoding, base, masking = question.encoding, question.left, question.erased_by
    scores = np.random.default_rng(0).normal(size=encoding.n_units)
    given = Attribution(question, scores, signed=True)
    loud = Attribution(question, np.where(base.numpy() > 0, scores, 1e3), signed=True)
    metric, prober = LinearScore(), Prober(model)
    (found,) = prober.ask(metric.score([question], [given], never))
    assert found.value == pytest.approx(slow(model, given, 64), abs=2e-3)
    assert prober.ask(metric.score([question], [loud], never))[0].value == found.value
    last = Question(encoding, 1).erased(torch.eye(encoding.n_units)[0], masking)
    assert prober.ask(metric.score([last], [given], never))[0].why == "a correlation needs two units"


def test_few_units_are_asked_about_every_subset_once():
    prober = Prober(MODEL)
    (encoding,) = MODEL.encode([Example("one", TEXT)])
    question = Question(encoding, 1)
    prober.ask(LinearScore().score([question], [Attribution(question, np.array(TRUTH), signed=True)], never))
    assert prober.cost.forward == 10  # two of five
    assert score(MODEL, TEXT, TRUTH, "linear_score", seed=0) == score(MODEL, TEXT, TRUTH, "linear_score", seed=1)
    assert score(MODEL, TEXT, TRUTH, "linear_score(samples=9)").record["subsets"] == 9


def test_units_are_kept_half_of_the_time():
    (given,) = explain(encoder("bert"), [LONG], "random")
    kept = LinearScore(samples=4000)._subsets(given.question, np.ones(given.question.n_units, bool))
    n_units = given.question.n_units
    assert (kept.sum(1) == n_units // 2).all()
    assert kept.mean(0) == pytest.approx([n_units // 2 / n_units] * n_units, abs=0.04)
    free = LinearScore(samples=4000, size="any")._subsets(given.question, np.ones(n_units, bool))
    assert free.mean(0) == pytest.approx([0.5] * n_units, abs=0.04)
    assert np.corrcoef(free.T)[0, 1:] == pytest.approx([0] * (n_units - 1), abs=0.06)
    assert (LinearScore().erased, LinearScore(size="any").erased) == ((0.5, 0.5), (0, 1))


def test_seeds_draw_other_subsets_of_a_long_text():
    model = encoder("bert")
    given = explain(model, [LONG], "input_x_gradient")
    first, again, other = (measure(model, given, "linear_score", seed=seed)[0].value for seed in (0, 0, 1))
    assert first == again != other


def test_the_odds_of_three_classes_and_of_a_contrast():
    # Of three classes the odds are against the two others together.
    texts = {"a b": [1, 0, 0], "[M] b": [0, 0, 2], "a [M]": [1, 3, 0], "[M] [M]": [0, 0, 0]}
    model = Lookup({text: np.log(np.array(row) + 1.0).tolist() for text, row in texts.items()})
    # Odds of the first: 2 / 2, 1 / 4, 2 / 5, 1 / 2; of sums 3, 1, 2, 0. Ranks 4, 1, 2, 3 and 4, 2, 3, 1: 1 − 6 · 6 / 60
    assert score(model, "a b", [2, 1], "linear_score(size=any)", target=0).value == pytest.approx(1 - 6 * 6 / 60)
    # Against the last alone: 2 / 1, 1 / 3, 2 / 1, 1 / 1: ranks 3.5, 1, 3.5, 2
    given = attribution(model, "a b", [2, 1], target=0)
    contrast = Attribution(Question(given.question.encoding, 0, against=2), given.scores, signed=True)
    expected = spearmanr([3, 1, 2, 0], [2, 1 / 3, 2, 1]).statistic
    assert measure(model, [contrast], "linear_score(size=any)")[0].value == pytest.approx(expected)


def test_a_label_has_its_own_odds_and_a_value_is_itself():
    table = {"a b": [0.9, 0.6], "[M] b": [0.1, 0.9], "a [M]": [0.2, 0.8], "[M] [M]": [0.8, 0.5]}
    # Of the second label 0.6, 0.9, 0.8, 0.5: ranks 2, 4, 3, 1; of sums 4, 2, 3, 1: 1 − 6 · 8 / 60
    assert score(LabelLookup(table), "a b", [2, 1], "linear_score(size=any)").value == pytest.approx(1 - 6 * 8 / 60)
    model = regression()
    (given,) = explain(model, ["a good film"], "leave_one_out")
    keep = torch.tensor([[code >> unit & 1 for unit in range(3)] for code in range(8)], dtype=torch.float32)
    values = Prober(model).ask(_values(Probe(given.question, keep, catalog.build("maskings", "mask_token"))))
    expected = spearmanr(keep.numpy() @ given.scores, values).statistic
    assert measure(model, [given], "linear_score(size=any)")[0].value == pytest.approx(expected)


def _values(probe):
    answers = yield probe
    return answers.logits[:, 0].numpy()


@pytest.mark.parametrize(
    ("text", "scores", "why"),
    [
        ("", [], "the text has no units"),
        ("a", [1.0], "a correlation needs two units"),
        ("a b", [1.0, 1.0], "the scores have the same sum in every subset"),
        ("c c", [1.0, 2.0], "the log-odds are the same under every subset"),
    ],
)
def test_undefined(text, scores, why):
    rows = {"": [0, 0], "a": [0, 0], "[M]": [0, 1], "a b": [0, 0], "[M] b": [0, 1], "a [M]": [0, 2], "[M] [M]": [0, 0]}
    model = Lookup({**rows, "c c": [0, 0], "[M] c": [0, 0], "c [M]": [0, 0]})
    found = score(model, text, scores, "linear_score")
    assert np.isnan(found.value)
    assert found.why == why


def test_rounding_errors_of_a_constant_model_are_not_correlated():
    noise = iter(np.random.default_rng(0).normal(0.5, 1e-9, size=10_000))
    model = load_model(lambda texts: [[one := next(noise), 1 - one] for _ in texts], labels=["no", "yes"])
    assert score(model, LONG, range(len(LONG.split())), "linear_score").why.startswith("the log-odds are the same")


def test_wrong_options():
    with pytest.raises(TrothError, match="linear_score: samples must be at least 2, not 1"):
        LinearScore(samples=1)
    with pytest.raises(TrothError, match="no size of linear_score is called 'all'"):
        LinearScore(size="all")
    with pytest.raises(TrothError, match="masking"):
        LinearScore(masking="erase")
