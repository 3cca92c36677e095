"""Methods that sample stop when their intervals are narrow enough, and the intervals are as good as they say."""

import re

import numpy as np
import pytest
import torch
from tests.explainers.referees import explained, questions

from fakes import encoder
from troth.core.draws import Draws
from troth.core.types import Question
from troth.engine.prober import Prober
from troth.engine.probes import Probe
from troth.explainers import _stopping
from troth.explainers._regression import regress
from troth.explainers.exact_shapley import all_coalitions, shapley_weights
from troth.explainers.kernel_shap import KernelShap, weighted_coalitions, with_errors
from troth.explainers.lime import Lime, surrogate, thinned
from troth.explainers.partition_shap import PartitionShap

TEXT = "not a bad book , but the plot was dull and slow"  # 12 words: all coalitions can be asked about
KINDS = [KernelShap, Lime, PartitionShap]


def of_seeds(kind, tolerance, seeds, samples=4000):
    (question,) = questions(texts=[TEXT])
    asked = [Question(question.encoding, 1, seed=seed) for seed in range(seeds)]
    return explained(kind(samples=samples, tolerance=tolerance), asked)


def used(attribution):
    return int(re.search(r"(\d+) of \d+ samples", attribution.note)[1])


@pytest.mark.parametrize("kind", KINDS)
def test_it_stops_when_it_knows_enough(kind):
    (loose,), (tight,) = of_seeds(kind, 0.5, 1), of_seeds(kind, 0.1, 1)
    assert used(loose) < used(tight) < 4000
    for run, tolerance in ((loose, 0.5), (tight, 0.1)):
        assert float(re.search(r"± ([\d.e-]+)", run.note)[1]) <= tolerance * np.abs(run.scores).max() * 1.05


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_says_it_used_is_what_it_asked(kind):
    (question,) = questions(texts=[TEXT])
    prober = Prober(encoder())
    attribution = prober.ask(kind(samples=4000, tolerance=0.3).ask([question]))[0]
    assert 0.8 * used(attribution) <= prober.cost.forward <= used(attribution) + 2  # what repeats is asked once


@pytest.mark.parametrize("kind", [KernelShap, Lime])
def test_without_reaching_it_the_result_is_that_of_all_samples(kind):
    """Asked in rounds or at once: for kernel_shap with the sizes that are whole from the beginning."""
    (question,) = questions(texts=[TEXT])
    (rounds,) = explained(kind(samples=150, tolerance=1e-9), [question])
    (once,) = explained(kind(samples=150), [question])
    if kind is KernelShap:
        values = _table(question)
        plan = weighted_coalitions(12, 150, question.draws("kernel_shap"), whole_within=97)
        scores, _ = with_errors(plan, _look_up(values, plan.coalitions) - values[0], float(values[-1] - values[0]))
        assert rounds.scores == pytest.approx(scores.numpy(), abs=1e-5)
        assert np.abs(rounds.scores - once.scores).max() < 0.1 * np.abs(once.scores).max()
    else:
        assert rounds.scores == pytest.approx(once.scores, abs=1e-5)
    assert used(rounds) == 150


def test_with_all_coalitions_there_is_no_doubt():
    (question,) = questions(texts=["a good film"])
    (attribution,) = explained(KernelShap(tolerance=0.01), [question])
    assert attribution.note == "95 % intervals of ± 0 or less, 6 of 1000 samples"


def test_rounds():
    assert list(_stopping.budgets(100, 400, 0.1)) == [100, 151, 227, 341, 400]
    assert list(_stopping.budgets(100, 400, None)) == [400]
    assert list(_stopping.budgets(100, 50, 0.1)) == [50]
    assert _stopping.narrow(torch.tensor([2.0, -4.0]), torch.tensor([0.1, 0.2]), 0.1)  # 1.96 · 0.2 ≤ 0.1 · 4
    assert not _stopping.narrow(torch.tensor([2.0, -4.0]), torch.tensor([0.1, 0.21]), 0.1)


def _table(question):
    """[2 ** units] what the model says of every coalition."""

    def ask():
        answer = yield Probe(question, all_coalitions(question.n_units))
        return answer.value("logit").double()

    return Prober(encoder()).ask(ask())


def _look_up(table, coalitions):
    return table[(coalitions.long() * 2 ** torch.arange(coalitions.shape[1])).sum(1)]


def _game(players=12):
    """A nonlinear game with interactions of all orders, and its Shapley values."""
    generator = torch.Generator().manual_seed(0)
    members = all_coalitions(players).double()
    alone, together = torch.randn(players, generator=generator), torch.randn(players, players, generator=generator)
    noise = 0.5 * torch.randn(len(members), generator=generator)
    table = (members @ alone.double() + 0.3 * ((members @ together.double()) * members).sum(1) + noise).tanh()
    return table, shapley_weights(all_coalitions(players)).T @ table


LONGER = [pytest.param(samples, marks=pytest.mark.full) for samples in (97, 400, 1600)]


@pytest.mark.parametrize("samples", [200, *LONGER])
def test_coverage_of_kernel_shap(samples):
    table, truth = _game()
    inside, squares = [], []
    for seed in range(200):
        plan = weighted_coalitions(12, samples, Draws(7919 * seed), whole_within=97)
        scores, errors = with_errors(plan, _look_up(table, plan.coalitions) - table[0], float(table[-1] - table[0]))
        inside.append((scores - truth).abs() <= _stopping.QUANTILE * errors)
        squares.append(torch.stack([(scores - truth).square(), errors.square()]))
    # 2,400 intervals; those of one seed depend on each other.
    assert float(torch.stack(inside).double().mean()) == pytest.approx(0.95, abs=0.02)
    real, said = torch.stack(squares).mean((0, 2)).sqrt().tolist()
    assert said == pytest.approx(real, rel=0.2)


@pytest.mark.parametrize("samples", [200, pytest.param(1000, marks=pytest.mark.full)])
def test_coverage_of_lime(samples):
    """The truth is the fit to all parts of the input, each counted as often as it is expected to be drawn."""
    table, _ = _game()
    members = all_coalitions(12).double()
    sizes = members.sum(1).long()
    of_size = torch.bincount(sizes).double()[sizes]
    often = torch.where(sizes == 12, 1.0, (samples - 1) / 12 / of_size)
    weights = often * torch.exp(-((100 * (1 - (sizes / 12).double().sqrt()) / 25) ** 2) / 2)
    share = weights / weights.sum()
    truth, _ = regress(members - share @ members, table - share @ table, weights, 1.0)
    inside = []
    for seed in range(200):
        kept = thinned(Draws(7919 * seed).uniforms(samples - 1, 13))
        scores, errors = surrogate(kept.double(), _look_up(table, kept), 25.0, 1.0)
        inside.append((scores - truth).abs() <= _stopping.QUANTILE * errors)
    assert float(torch.stack(inside).double().mean()) == pytest.approx(0.94, abs=0.02)


@pytest.mark.full
@pytest.mark.parametrize("tolerance", [0.3, 0.1])
@pytest.mark.parametrize("kind", [KernelShap, PartitionShap])
def test_coverage_where_it_stopped(kind, tolerance):
    """The text is one sentence, so both estimate the Shapley value: nearly all scores are within the tolerance."""
    (question,) = questions(texts=[TEXT])
    truth = (shapley_weights(all_coalitions(12)).T @ _table(question)).numpy()
    runs = of_seeds(kind, tolerance, 60)
    scores = np.array([run.scores for run in runs])
    # Narrow enough for the widest interval, so the share is above 95 % even though stopping looks at the draws.
    assert np.mean(np.abs(scores - truth) <= tolerance * np.abs(scores).max(1, keepdims=True)) >= 0.95
    widths = np.array([float(re.search(r"± ([\d.e-]+)", run.note)[1]) for run in runs])
    assert np.sqrt(np.mean((scores - truth) ** 2)) < widths.mean() / 1.5
