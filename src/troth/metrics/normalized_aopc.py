"""Where the explanation's order of erasing units stands between the worst order and the best one: 0 to 1 (NAOPC; Edin
et al., 2025).

The AOPC of an order is the loss of the target's probability, averaged over all n steps in which units are masked one by
one. The lowest and the highest AOPC of any order depend on the model and the text, so that plain AOPC cannot be
compared between models; this metric scales it between the two.

Up to 8 units the bounds are exact: an order is a chain of subsets, so the 2ⁿ subsets are evaluated and the best chain
is found by dynamic programming, without enumerating all n! orders. For longer texts, two beam searches look for the
best and the worst order; each extends its `width` best subsets by every remaining unit. In the authors' code a beam may
contain one subset several times, in different orders; here it contains it once. A beam search can miss the best order,
so if the explanation's own order exceeds a bound, the bound is replaced by its value. The record and the summary's
`extra` contain the AOPC and its bounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from troth.core.errors import TrothError
from troth.core.types import Attribution, Question, Score
from troth.engine.probes import Probe
from troth.engine.routines import Routine, per_text
from troth.metrics import Erasing, ExplainOne, defined_records, formulas, undefined
from troth.metrics._erasing import Bools, ranking, target_probability
from troth.metrics.formulas import Floats

EXACT_UP_TO = 8  # number of units
_SAME = 1e-6  # relative to the largest probability; results differ by this much between batch shapes


@dataclass(frozen=True)
class NormalizedAopc(Erasing):
    higher_is_better = True
    bounds = "[0, 1]"
    formula = "(A(π) − min A) / (max A − min A) with A(π) = mean over k = 1 … n of p(x) − p(x without π₁ … πₖ)"
    pitfalls = (
        "Above 8 units it takes up to width · n² forward passes. Bounds found by beam search may be too narrow: raise "
        "width and see whether they change. If all orders are nearly equal, small differences are magnified: look at "
        "low and high in the record."
    )

    width: int = 5
    masking: str = "mask_token"

    def __post_init__(self) -> None:
        if self.width < 1:
            raise TrothError(f"normalized_aopc: width must be at least 1, not {self.width}")
        super().__post_init__()

    def passes(self, n_units: int) -> int:
        if n_units <= EXACT_UP_TO:
            return 1 << n_units
        # In each round every subset of the two beams loses one more unit; the number of subsets of that size is
        # limited.
        beams = 2 * self.width
        return 1 + sum(min(beams * (n_units - gone + 1) + 1, comb(n_units, gone)) for gone in range(1, n_units + 1))

    @per_text
    def ask(self, question: Question, attribution: Attribution, explain: ExplainOne) -> Routine[Score]:
        units = np.flatnonzero(question.left.numpy() > 0)  # units that are still present in the input
        order = ranking(attribution.scores[units]).numpy()
        is_exact = len(units) <= EXACT_UP_TO
        search = self._all_subsets if is_exact else self._beams
        p, low, high = yield from search(question, units, order)
        full, left = float(p[0]), p[1:]
        value = formulas.aopc(formulas.comprehensiveness(full, left))
        low, high = float(np.fmin(low, value)), float(np.fmax(high, value))
        record = {
            "aopc": value, "low": low, "high": high, "bounds": "exact" if is_exact else "beam",
            "p_full": full, "p_erased": left.tolist(),
        }  # fmt: skip
        if len(units) < 2:
            return undefined("an order needs two units", **record)
        if high - low <= _SAME * np.abs(p).max():
            return undefined("every order lowers the probability equally much (high = low)", **record)
        return Score(formulas.normalized_aopc(value, low, high), record)

    def _all_subsets(
        self, question: Question, units: NDArray[np.int64], order: NDArray[np.int64]
    ) -> Routine[tuple[Floats, float, float]]:
        """p of the whole input and along the order, and the exact bounds of the AOPC, from all subsets of the units."""
        subsets = np.arange(1 << len(units))  # bit i: unit i is erased
        answers = yield self._without(question, units, (subsets[:, None] >> np.arange(len(units))) % 2 == 1)
        p = target_probability(answers)
        return p[np.cumsum([0, *(1 << order)])], *formulas.aopc_bounds(p)

    def _beams(
        self, question: Question, units: NDArray[np.int64], order: NDArray[np.int64]
    ) -> Routine[tuple[Floats, float, float]]:
        """The same with bounds from two beam searches, each round of which evaluates subsets with one more erased
        unit.
        """
        count = len(units)
        best, worst = _Beam(count, self.width, 1), _Beam(count, self.width, -1)
        rank = np.empty(count, np.int64)
        rank[order] = np.arange(count)
        along: list[float] = []
        for erased in range(1, count + 1):
            # The subset of this size in the explanation's order and, in the first round, the whole input.
            own = rank < np.arange(erased - (erased == 1), erased + 1)[:, None]
            first, second = best.grown(), worst.grown()
            p = target_probability((yield self._without(question, units, np.concatenate([own, first, second]))))
            along += p[: len(own)].tolist()
            best.choose(p[len(own) : len(own) + len(first)])
            worst.choose(p[len(own) + len(first) :])
        return np.array(along), along[0] - worst.mean, along[0] - best.mean

    def _without(self, question: Question, units: NDArray[np.int64], erased: Bools) -> Probe:
        """The probe for [rows, remaining units], True for erased units."""
        keep = torch.ones(len(erased), question.n_units)
        keep[:, torch.from_numpy(units)] = torch.from_numpy(~erased).float()
        return Probe(question, keep, self.perturbation)

    def extra(self, scores: Sequence[Score]) -> Mapping[str, Any]:
        records = defined_records(scores)
        means = {
            name: float(np.mean([record[name] for record in records])) if records else np.nan
            for name in ("aopc", "low", "high")
        }
        return {**means, "bounds": " and ".join(sorted({record["bounds"] for record in records}))}


class _Beam:
    """The subsets of erased units that the best orders so far lead to: with the smallest or the largest sum of p."""

    def __init__(self, units: int, width: int, sign: int) -> None:
        self._width, self._sign = width, sign
        self._erased = np.zeros((1, units), np.bool_)
        self._total = np.zeros(1)  # sign · the sum of p along the order that leads to each subset; smaller is better

    def grown(self) -> Bools:
        """[subsets, units] Every subset with one more unit, without duplicates."""
        parent, unit = np.nonzero(~self._erased)  # best subset first, its units in reading order
        erased = self._erased[parent]
        erased[np.arange(len(unit)), unit] = True
        # The first of equal subsets has the best order, since p of the subset itself is the same.
        first = np.sort(np.unique(np.packbits(erased, axis=1), axis=0, return_index=True)[1])
        self._erased, self._total = erased[first], self._total[parent[first]]
        return self._erased

    def choose(self, p: Floats) -> None:
        """Selects the best subsets, given the probability without each."""
        total = self._total + self._sign * p
        best = np.argsort(total, kind="stable")[: self._width]
        self._erased, self._total = self._erased[best], total[best]

    @property
    def mean(self) -> float:
        """The mean of p along the best order, once every unit is erased."""
        return float(self._sign * self._total[0] / self._erased.shape[1])
