"""The unit's Shapley value: its mean contribution to the class's value over all orders in which units could be added
(Shapley, 1953).

All 2ⁿ coalitions are evaluated, so texts may have at most 12 units. Scores sum to f(input) − f(all units erased).
"""

from dataclasses import dataclass
from math import factorial

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import Attribution, Question
from troth.engine.probes import Of, Probe
from troth.engine.routines import Routine, per_text
from troth.explainers import SignedExplainer
from troth.explainers._players import per_unit, players

_MOST_UNITS = 12


@dataclass(frozen=True)
class ExactShapley(SignedExplainer):
    formula = "sᵢ = Σ_S |S|! (n − |S| − 1)! / n! · (f(S ∪ {i}) − f(S))"
    pitfalls = "Runs the model on 2ⁿ inputs, most of them unlike any real text; at most 12 units."

    of: Of = "logit"

    def passes(self, n_units: int) -> int:
        return 1 << min(n_units, 60)

    @per_text
    def ask(self, question: Question) -> Routine[Attribution]:
        count = len(players(question))
        if count > _MOST_UNITS:
            raise TrothError(
                f"exact_shapley asks about every coalition, so it takes at most {_MOST_UNITS} units; example "
                f"{question.encoding.example.id} has {count}: use kernel_shap, or larger units (sentence)"
            )
        coalitions = all_coalitions(count)
        answer = yield Probe(question, per_unit(question, coalitions))
        scores = shapley_weights(coalitions).T @ answer.value(self.of).double()
        return Attribution(question, per_unit(question, scores).numpy(), signed=self.signed)


def all_coalitions(players: int) -> Tensor:
    """[2 ** players, players] True for members; the empty coalition first, the full one last."""
    return (torch.arange(2**players)[:, None] >> torch.arange(players)) % 2 == 1


def shapley_weights(coalitions: Tensor) -> Tensor:
    """The weight of each coalition's value for each player, given all coalitions. [coalitions, players], the same
    shape
    """
    n = coalitions.shape[1]
    # A coalition of size s is what a member joined at |S| = s − 1, and what another player would join at |S| = s.
    share = [factorial(s) * factorial(n - s - 1) / factorial(n) for s in range(n)]
    joined = torch.tensor([0.0, *share], dtype=torch.float64)
    to_join = torch.tensor([*share, 0.0], dtype=torch.float64)
    sizes = coalitions.sum(1)
    return torch.where(coalitions, joined[sizes][:, None], -to_join[sizes][:, None])
