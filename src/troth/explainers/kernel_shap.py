"""The unit's Shapley value, estimated: its coefficient in a linear model of coalitions weighted by the Shapley kernel
(Lundberg & Lee, 2017). Scores sum to f(input) − f(all units erased) exactly.

The smallest and the largest coalitions have the largest weights, so all coalitions of these sizes are evaluated first,
as far as they fit into `samples`. Coalitions of the other sizes are drawn at random in pairs, each with its complement,
until there are enough different ones. If all 2ⁿ − 2 coalitions fit, the result is the exact Shapley value.

With a `tolerance`, the first round evaluates all coalitions of the smallest and largest sizes and a few random pairs.
Each further round adds half as many samples, until the 95 % interval of every score is within ± `tolerance` times the
largest one, or `samples` is reached. The standard error describes the random choice of pairs: it is the sandwich
estimator with pairs as observations and leave-one-out residuals (HC3). `note` contains the interval and the number of
samples used.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import ceil, comb

import torch
from torch import Tensor

from troth.core.draws import Draws
from troth.core.errors import TrothError
from troth.core.types import Attribution, Question
from troth.engine.probes import Of, Probe
from troth.engine.routines import Routine, per_text
from troth.explainers import SignedExplainer, _stopping
from troth.explainers._players import first_of_each, marks, per_unit, players, ranks
from troth.explainers._regression import solve


@dataclass(frozen=True)
class KernelShap(SignedExplainer):
    formula = "s = argmin Σ_S w(S) (f(S) − f(∅) − Σ_{i ∈ S} sᵢ)²,  w(S) = (n − 1) / (C(n, |S|) · |S| · (n − |S|))"
    pitfalls = "An estimate: on long texts it needs many samples. Set tolerance, and see the interval in the note."

    samples: int = 1000  # coalitions, without the whole input and the empty one
    of: Of = "logit"
    tolerance: float | None = None  # 0.1: stop when every score is known to ± 10 % of the largest

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise TrothError(f"kernel_shap: samples must be at least 2, not {self.samples}")
        _stopping.check("kernel_shap", self.tolerance)

    def passes(self, n_units: int) -> int:
        return min(self.samples + 2, 1 << n_units)

    @per_text
    def ask(self, question: Question) -> Routine[Attribution]:
        count = len(players(question))
        if count == 0:
            return Attribution(question, torch.zeros(question.n_units).numpy(), signed=self.signed)
        ends = torch.stack([torch.zeros(count), torch.ones(count)]).bool()
        outer, pairs = torch.zeros(0), torch.zeros(2, 0, dtype=torch.float64)
        note = ""
        for plan in self._plans(count, question.draws("kernel_shap")):
            new = plan.drawn[pairs.shape[1] :]
            first = [] if len(outer) else [ends, plan.whole]
            answer = yield Probe(question, per_unit(question, torch.cat([*first, new, ~new])))
            values = answer.value(self.of).double()
            if first:
                outer, values = values[: 2 + len(plan.whole)], values[2 + len(plan.whole) :]
            pairs = torch.cat([pairs, values.view(2, -1)], dim=1)
            gains, total = torch.cat([outer[2:], pairs.view(-1)]) - outer[0], float(outer[1] - outer[0])
            if self.tolerance is None:
                scores = constrained(plan.coalitions.double(), gains, plan.weights, total)
                break
            scores, errors = with_errors(plan, gains, total)
            note = _stopping.said(errors, len(plan.coalitions), self.samples)
            if _stopping.narrow(scores, errors, self.tolerance):
                break
        return Attribution(question, per_unit(question, scores).numpy(), signed=self.signed, note=note)

    def _plans(self, count: int, draws: Draws) -> Iterator["CoalitionPlan"]:
        """Yields one plan without a tolerance; otherwise plans of growing size, each of which begins with the previous
        one.
        """
        # Enough samples to enumerate the outermost sizes.
        first = ceil(2 * count * (1 + sum(1 / size for size in range(1, count))))
        first = min(first, self.samples) if self.tolerance is not None else self.samples
        for samples in _stopping.budgets(first, self.samples, self.tolerance):
            yield weighted_coalitions(count, samples, draws, whole_within=first)


def constrained(coalitions: Tensor, gains: Tensor, weights: Tensor, total: float) -> Tensor:
    """Coefficients of the weighted linear model, constrained to sum to `total`. [coalitions, players], … ->
    [players]
    """
    design, rest = _without_mean(coalitions, gains, total)
    return total / coalitions.shape[1] + solve(design, rest, weights)[0]


def _without_mean(coalitions: Tensor, gains: Tensor, total: float) -> tuple[Tensor, Tensor]:
    """The design and the remaining gains after every player got the same coefficient, total / players.

    Centered rows do not determine the sum of the coefficients; the solution of minimum norm has the sum 0.
    """
    shares = coalitions.mean(1)
    return coalitions - shares[:, None], gains - shares * total


@dataclass(frozen=True, eq=False)
class CoalitionPlan:
    """The coalitions to evaluate: those of enumerated sizes, then those drawn, then the complements of the latter."""

    whole: Tensor  # [coalitions, players] bool
    drawn: Tensor  # [pairs, players] bool
    weights: Tensor  # [coalitions + 2 · pairs] weight of each coalition
    counts: Tensor  # [pairs] number of times that each pair was drawn

    @property
    def coalitions(self) -> Tensor:
        """[coalitions + 2 · pairs, players] bool"""
        return torch.cat([self.whole, self.drawn, ~self.drawn])


def with_errors(plan: CoalitionPlan, gains: Tensor, total: float) -> tuple[Tensor, Tensor]:
    """The constrained coefficients and the standard errors of drawing the pairs again. -> [players], [players]"""
    design, rest = _without_mean(plan.coalitions.double(), gains, total)
    coefficients, inverse = solve(design, rest, plan.weights)
    draws, pairs = plan.counts.sum(), slice(len(plan.whole), len(plan.whole) + len(plan.drawn))
    if not len(plan.counts):
        errors = torch.zeros_like(coefficients)  # all coalitions are enumerated
    elif draws < 2:
        errors = torch.full_like(coefficients, torch.inf)
    else:
        residuals = (rest - design @ coefficients)[len(plan.whole) :].view(2, -1)
        member, weight = design[pairs], plan.weights[pairs] / plan.counts
        reach = member @ inverse
        leverage = 2 * weight * (reach * member).sum(1)
        # The row of a complement is the negative of the other row of its pair.
        influence = reach * (weight * (residuals[0] - residuals[1]) / (1 - leverage).clamp(min=1e-6))[:, None]
        centered = influence - (plan.counts @ influence) / draws
        errors = ((plan.counts @ centered.square()) * draws / (draws - 1)).sqrt()
    return total / len(coefficients) + coefficients, errors


def weighted_coalitions(players: int, samples: int, draws: Draws, whole_within: int | None = None) -> CoalitionPlan:
    """At most `samples` coalitions and their weights.

    `whole_within` decides which sizes are enumerated: those for which this number of samples would be enough.
    """
    parts = [torch.zeros(0, players, dtype=torch.bool)]
    weights = [torch.zeros(0, dtype=torch.float64)]
    drawn, counts = parts[0], weights[0]
    # A size is treated together with its mirror image; all coalitions of a size have the mass (n − 1) / (s (n − s)).
    sizes = list(range(1, players // 2 + 1))
    mass = [(1 if 2 * size == players else 2) / (size * (players - size)) for size in sizes]
    number = [(1 if 2 * size == players else 2) * comb(players, size) for size in sizes]
    left, room = samples, samples if whole_within is None else whole_within
    while sizes and number[0] <= room * mass[0] / sum(mass) + 1e-9:
        whole = _all_of(players, sizes[0])
        parts.append(whole if 2 * sizes[0] == players else torch.cat([whole, ~whole]))
        weights.append(torch.full((number[0],), mass[0] / number[0], dtype=torch.float64))
        left, room = left - number[0], room - number[0]
        sizes, mass, number = sizes[1:], mass[1:], number[1:]
    if sizes and left >= 2:
        drawn, counts = _drawn(players, sizes, mass, left // 2, draws)
        weights += [counts / counts.sum() * sum(mass) / 2] * 2
    return CoalitionPlan(torch.cat(parts), drawn, torch.cat(weights), counts)


def _all_of(players: int, size: int) -> Tensor:
    members = torch.tensor(list(combinations(range(players), size)))
    return torch.zeros(len(members), players, dtype=torch.bool).scatter_(1, members, True)


def _drawn(players: int, sizes: list[int], mass: list[float], wanted: int, draws: Draws) -> tuple[Tensor, Tensor]:
    """`wanted` different coalitions (fewer if four times as many draws do not find them) and how often each was
    drawn.
    """
    uniforms = draws.uniforms(4 * wanted, 1 + players)
    bounds = torch.tensor(mass, dtype=torch.float64).cumsum(0)
    place = torch.searchsorted(bounds, uniforms[:, 0].double() * bounds[-1], right=True).clamp(max=len(sizes) - 1)
    members = ranks(uniforms[:, 1:]) < torch.tensor(sizes)[place, None]
    keys = (members * marks(players)).sum(1)
    first = first_of_each(keys)
    if len(first) > wanted:
        keys, first = keys[: int(first[wanted])], first[:wanted]
    distinct, counts = torch.unique(keys, return_counts=True)
    return members[first], counts[torch.searchsorted(distinct, keys[first])].double()
