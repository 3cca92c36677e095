"""What erasure metrics share: which units are at the top, how many of them, and the rows without or with only them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from troth.errors import TrothError
from troth.types import Attribution, Scores

Rounding = Literal["floor", "ceil"]
AOPC_RATIOS = (0.01, 0.05, 0.1, 0.2, 0.5)


def ranking(scores: Scores | Tensor) -> Tensor:
    """Units from the highest score to the lowest; ties keep reading order."""
    return torch.argsort(torch.as_tensor(scores), descending=True, stable=True)


def count_at(ratio: float, n_units: int, rounding: Rounding = "floor") -> int:
    """How many of n units a ratio stands for, in whole basis points: floats are wrong in one case of eight.

    >>> count_at(0.29, 100), count_at(0.01, 30), count_at(0.01, 30, "ceil")
    (29, 0, 1)
    """
    product = basis_points(ratio) * n_units
    return -(-product // 10_000) if rounding == "ceil" else product // 10_000


def basis_points(ratio: float) -> int:
    """A ratio as a whole number of ten-thousandths."""
    points = round(ratio * 10_000)
    if not 0 <= ratio <= 1 or abs(points - ratio * 10_000) > 1e-6:
        raise TrothError(f"a ratio must lie in [0, 1] and have at most four decimals, not {ratio}")
    return points


def top_units(attribution: Attribution, ratios: Sequence[float], rounding: Rounding = "floor") -> Tensor:
    """[ratios, units] 1 for the units with the highest scores, as many as each ratio says."""
    order = ranking(attribution.scores)
    top = torch.zeros(len(ratios), len(order))
    for row, ratio in enumerate(ratios):
        top[row, order[: count_at(ratio, len(order), rounding)]] = 1
    return top
