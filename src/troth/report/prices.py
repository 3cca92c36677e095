"""The cost of explanations, and whether a lead is worth its cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from troth.core.numbers import percent
from troth.report.comparing import RANDOM, Analysis

_CLOSE = 0.1  # fraction of the lead over random; a smaller lead over another method is negligible


@dataclass(frozen=True)
class Prices:
    """What an explanation costs."""

    seconds: Mapping[str, float]
    passes: Mapping[str, float]

    def order(self, name: str) -> tuple[float, float]:
        """A sort key: by passes, which are the same in every run; by times, which vary, only if no passes were
        counted.
        """
        return (round(self.passes.get(name, 0.0)), 0.0) if self.passes else (0, self.seconds.get(name, np.inf))

    def of(self, name: str) -> str:
        """
        >>> Prices({"lime": 0.25}, {"lime": 1.0}).of("lime")
        '1 pass, 250 ms per example'
        """
        count = round(self.passes[name]) if name in self.passes else None
        parts = [] if count is None else [f"{count:,} {'pass' if count == 1 else 'passes'}"]
        if name in self.seconds:
            parts.append(f"{1000 * self.seconds[name]:.0f} ms")
        return f"{', '.join(parts)} per example" if parts else ""


def price(analysis: Analysis, leader: str, others: Sequence[str], prices: Prices) -> list[str]:
    """The cost of the winner, and a cheaper method whose difference to it is negligible."""
    cost = prices.of(leader)
    close = [name for name in others if _share_of_lead(analysis, leader, name) < _CLOSE]
    cheaper = [name for name in close if prices.passes.get(name, np.inf) * 2 <= prices.passes.get(leader, 0)]
    if not cheaper:
        return [f"{leader} takes {cost}."] if leader in prices.passes else []
    other = min(cheaper, key=prices.order)
    share, factor = _share_of_lead(analysis, leader, other), prices.passes[leader] / max(1.0, prices.passes[other])
    return [
        f"{other} will do: the lead over it is {percent(share)} of the lead over random, for {factor:,.0f} times the "
        "passes.",
        f"{leader} takes {cost}; {other} takes {prices.of(other)}.",
    ]


def _share_of_lead(analysis: Analysis, leader: str, other: str) -> float:
    """The lead over the other explainer as a fraction of the lead over random; the largest over metrics."""
    over_random = {pair.metric: pair.difference for pair in analysis.between(leader, RANDOM)}
    leads = [(pair.difference, over_random.get(pair.metric, 0.0)) for pair in analysis.between(leader, other)]
    return max((abs(lead / whole) if whole else np.inf for lead, whole in leads), default=np.inf)
