"""The unit's Shapley value, estimated: its coefficient in a linear model of coalitions weighted by the Shapley kernel
(Lundberg & Lee, 2017). Scores sum to f(input) − f(all units erased) exactly.

Sizes whose coalitions all fit into `samples` are asked about whole, the outer sizes (which weigh most) first; from the
others coalitions are drawn together with their complements, until enough different ones are found. With room for all
2ⁿ − 2 coalitions the result is the exact Shapley value.
"""

from dataclasses import dataclass
from itertools import combinations
from math import comb

import torch
from torch import Tensor

from troth.core.draws import Draws
from troth.core.errors import TrothError
from troth.core.types import Attribution, Question
from troth.engine.looks import Ask, Look, Of
from troth.explainers import SignedExplainer
from troth.explainers._players import first_of_each, marks, per_unit, players
from troth.explainers._regression import regress


@dataclass(frozen=True)
class KernelShap(SignedExplainer):
    samples: int = 1000  # coalitions, without the whole input and the empty one
    of: Of = "logit"

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise TrothError(f"kernel_shap: samples must be at least 2, not {self.samples}")

    def passes(self, n_units: int) -> int:
        return min(self.samples + 2, 1 << n_units)

    def ask(self, question: Question) -> Ask[Attribution]:
        count = len(players(question))
        if count == 0:
            return Attribution(question, torch.zeros(question.n_units).numpy(), signed=self.signed)
        coalitions, weights = weighted_coalitions(count, self.samples, question.draws("kernel_shap"))
        ends = torch.stack([torch.zeros(count), torch.ones(count)]).bool()
        answer = yield Look(question, per_unit(question, torch.cat([ends, coalitions])))
        value = answer.value(self.of).double()
        scores = constrained(coalitions.double(), value[2:] - value[0], weights, float(value[1] - value[0]))
        return Attribution(question, per_unit(question, scores).numpy(), signed=self.signed)


def constrained(coalitions: Tensor, gains: Tensor, weights: Tensor, total: float) -> Tensor:
    """Coefficients of the weighted linear model, held to sum to `total`. [coalitions, players], … -> [players]"""
    shares = coalitions.mean(1)  # what a coalition would gain if all players had the same coefficient
    # Rows without their mean leave the sum of the coefficients open; the shortest solution has the sum 0.
    deviations, _ = regress(coalitions - shares[:, None], gains - shares * total, weights)
    return total / coalitions.shape[1] + deviations


def weighted_coalitions(players: int, samples: int, draws: Draws) -> tuple[Tensor, Tensor]:
    """At most `samples` coalitions and how much each counts. -> [coalitions, players] bool, [coalitions]"""
    parts = [torch.zeros(0, players, dtype=torch.bool)]
    weights = [torch.zeros(0, dtype=torch.float64)]
    # A size and its mirror image together; the kernel's mass of all coalitions of a size is (n − 1) / (s (n − s)).
    sizes = list(range(1, players // 2 + 1))
    mass = [(1 if 2 * size == players else 2) / (size * (players - size)) for size in sizes]
    number = [(1 if 2 * size == players else 2) * comb(players, size) for size in sizes]
    left = samples
    while sizes and number[0] <= left * mass[0] / sum(mass) + 1e-9:
        whole = _all_of(players, sizes[0])
        parts.append(whole if 2 * sizes[0] == players else torch.cat([whole, ~whole]))
        weights.append(torch.full((number[0],), mass[0] / number[0], dtype=torch.float64))
        left -= number[0]
        sizes, mass, number = sizes[1:], mass[1:], number[1:]
    if sizes and left >= 2:
        drawn, counts = _drawn(players, sizes, mass, left // 2, draws)
        parts += [drawn, ~drawn]
        weights += [counts / counts.sum() * sum(mass) / 2] * 2
    return torch.cat(parts), torch.cat(weights)


def _all_of(players: int, size: int) -> Tensor:
    members = torch.tensor(list(combinations(range(players), size)))
    return torch.zeros(len(members), players, dtype=torch.bool).scatter_(1, members, True)


def _drawn(players: int, sizes: list[int], mass: list[float], wanted: int, draws: Draws) -> tuple[Tensor, Tensor]:
    """`wanted` different coalitions (fewer if four times as many draws do not find them) and how often each came."""
    uniforms = draws.uniforms(4 * wanted, 1 + players)
    bounds = torch.tensor(mass, dtype=torch.float64).cumsum(0)
    place = torch.searchsorted(bounds, uniforms[:, 0].double() * bounds[-1], right=True).clamp(max=len(sizes) - 1)
    ranks = uniforms[:, 1:].argsort(dim=1, stable=True).argsort(dim=1)
    members = ranks < torch.tensor(sizes)[place, None]
    keys = (members * marks(players)).sum(1)
    first = first_of_each(keys)
    if len(first) > wanted:
        keys, first = keys[: int(first[wanted])], first[:wanted]
    distinct, counts = torch.unique(keys, return_counts=True)
    return members[first], counts[torch.searchsorted(distinct, keys[first])].double()
