"""How much two units do together beyond what each does alone: the Shapley interaction index of order two (SII; Grabisch
& Roubens, 1999), next to the Shapley value of each unit.

I(i, j) = Σ_T |T|! (n − |T| − 2)! / (n − 1)! · (f(T ∪ {i, j}) − f(T ∪ {i}) − f(T ∪ {j}) + f(T)), T without i and j.

The values are exact if a text has at most `samples` maskings (2ⁿ; by default up to 10 units). For longer texts, a
quadratic function of the mask is fitted to random maskings, and its mean error on other maskings is added: the values
are unbiased however good the fit is, and a good fit makes their standard errors small. All masks of no, one, all but
one and all units are evaluated; other masks are drawn in pairs with their complements. The fit is cross-fitted with
five folds. If a text has more pairs than half of `samples`, boosted trees search half of the maskings for relevant
pairs, and the other half estimates their values, so that selecting the pairs does not bias them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import comb

import numpy as np
import torch

from troth.core.draws import Draws
from troth.core.errors import TrothError
from troth.core.interactions import Forecast, Interactions
from troth.core.types import Attribution, Question
from troth.engine.probes import Of, Probe
from troth.engine.routines import Routine, per_text
from troth.explainers import SignedExplainer, _stopping
from troth.explainers._players import per_unit, players, ranks
from troth.explainers._quadratic import Floats, boosted, ridge
from troth.explainers.exact_shapley import all_coalitions

_FOLDS = 5
_ROWS_PER_UNIT = 8  # with fewer samples per unit, pairs cannot be estimated


@dataclass(frozen=True)
class ShapleyInteractions(SignedExplainer):
    samples: int = 1024  # maskings that the values are computed from
    of: Of = "logit"
    tolerance: float | None = None  # 0.1: stop when every pair is known to ± 10 % of the strongest
    held_out: int = 128  # additional maskings that measure how well pairs predict the model

    def __post_init__(self) -> None:
        for name, value, least in (("samples", self.samples, 4), ("held_out", self.held_out, 2)):
            if value < least:
                raise TrothError(f"interactions: {name} must be at least {least}, not {value}")
        _stopping.check("interactions", self.tolerance)

    def passes(self, n_units: int) -> int:
        return min(1 << min(n_units, 60), self.samples + self.held_out)

    @per_text
    def ask(self, question: Question) -> Routine[Attribution]:
        there = players(question)
        n = len(there)
        if 1 << min(n, 60) <= self.samples:
            masks = all_coalitions(n)
            answer = yield Probe(question, per_unit(question, masks.float()), distinct=True)
            found = exact(masks.numpy().astype(np.float64), answer.value(self.of).double().numpy())
        else:
            found = yield from self._sampled(question, n)
        place = there.tolist()
        first, second = np.triu_indices(n, 1)
        listed = found.listed[first, second]
        first, second = first[listed], second[listed]
        order = np.argsort(-np.abs(found.pair[first, second]), kind="stable")
        places = list(zip(first[order].tolist(), second[order].tolist(), strict=True))
        return Interactions(
            question,
            per_unit(question, torch.from_numpy(found.single)).numpy(),
            signed=self.signed,
            note=found.note,
            pairs=tuple((place[i], place[j], float(found.pair[i, j])) for i, j in places),
            errors=tuple(float(found.error[i, j]) for i, j in places),
            exact=found.exact,
            complete=bool(found.listed[np.triu_indices(n, 1)].all()),
            maskings=found.maskings,
            empty=found.empty,
            forecast=found.forecast,
        )

    def _sampled(self, question: Question, n: int) -> Routine["PairValues"]:
        least = _ROWS_PER_UNIT * n
        if self.samples < least:
            raise TrothError(
                f"interactions of {n} units need at least {least:,} maskings, not {self.samples:,} (example "
                f"{question.encoding.example.id}): raise samples, or take larger units (sentence)"
            )
        ends = np.concatenate([np.zeros((1, n)), np.eye(n), 1 - np.eye(n), np.ones((1, n))])
        test = any_size(n, self.held_out, question.draws("interactions_held_out"))
        draws, drawn = question.draws("interactions"), np.zeros((0, n))
        values, kept, spoken = np.zeros((2, 0)), np.zeros(0), np.zeros(0)
        found = None
        for budget in _stopping.budgets(2 * least, self.samples, self.tolerance):
            plan = complementary(n, (budget - len(ends)) // 2, draws)
            new = plan.masks[len(drawn) :]
            asked = [ends, test] if not len(drawn) else []
            rows = torch.from_numpy(np.concatenate([*asked, new, 1 - new])).float()
            answer = yield Probe(question, per_unit(question, rows))
            said = answer.value(self.of).double().numpy()
            if asked:
                kept, spoken, said = np.split(said, [len(ends), len(ends) + len(test)])
            drawn, values = plan.masks, np.concatenate([values, said.reshape(2, -1)], axis=1)
            found = estimate(plan, values, ends, kept, sparse=n * (n - 1) > self.samples)
            upper = found.listed & np.triu(np.ones((n, n), bool), 1)
            errors, pairs = (torch.from_numpy(each[upper]) for each in (found.error, found.pair))
            if not len(pairs) or _stopping.narrow(pairs, errors, self.tolerance):
                break
        assert found is not None
        note = _stopping.said(errors, found.maskings, self.samples) if len(pairs) else "no pair was found"
        both = np.concatenate([plan.masks, 1 - plan.masks])
        asked_before = Judged(both, values.ravel(), np.tile(1 / plan.chance, 2))
        tested = Judged(test, spoken, np.ones(len(test)))
        return replace(found, note=note, forecast=forecast(found, asked_before, tested, held_out=True))


@dataclass(frozen=True, eq=False)
class PairValues:
    """The values of the units and pairs of one text."""

    single: Floats  # [units] Shapley values
    pair: Floats  # [units, units] SII
    error: Floats  # [units, units] standard errors
    listed: np.ndarray  # [units, units] the pairs that have values
    empty: float
    maskings: int
    exact: bool
    note: str = ""
    forecast: Forecast | None = None


@dataclass(frozen=True, eq=False)
class ComplementPairs:
    """Random masks, each evaluated together with its complement."""

    masks: Floats  # [pairs, units]
    chance: Floats  # [pairs] probability of the mask's size


def complementary(n: int, count: int, draws: Draws) -> ComplementPairs:
    """Random masks of 2 to n − 2 units; their sizes are distributed so that the errors of pairs are smallest for
    residuals of equal variance.
    """
    sizes = np.arange(2, n - 1).astype(np.float64)
    rest = n - sizes
    often = np.sqrt(2 / (sizes * rest) + 1 / (sizes * (sizes - 1)) + 1 / (rest * (rest - 1)))
    often /= often.sum()
    uniforms = draws.uniforms(count, 1 + n)
    place = np.searchsorted(often.cumsum(), uniforms[:, 0].numpy(), side="right").clip(max=len(sizes) - 1)
    masks = ranks(uniforms[:, 1:]).numpy() < sizes[place, None]
    return ComplementPairs(masks.astype(np.float64), often[place])


def any_size(n: int, count: int, draws: Draws) -> Floats:
    """Random masks of 1 to n − 1 units, with uniform sizes. [count, units]"""
    uniforms = draws.uniforms(count, 1 + n)
    sizes = 1 + (uniforms[:, :1] * (n - 1)).floor()
    return np.asarray((ranks(uniforms[:, 1:]) < sizes).numpy(), np.float64)


def single_weights(masks: Floats) -> Floats:
    """The weight of each mask's value in each Shapley value, times the number of masks of its size. [rows, units]"""
    n, sizes = masks.shape[1], masks.sum(1, keepdims=True)
    return np.asarray(np.where(masks > 0, 1 / np.maximum(sizes, 1), -1 / np.maximum(n - sizes, 1)))


def pair_weights(n: int, sizes: Floats) -> tuple[Floats, Floats, Floats]:
    """The same for pairs with both, one and no unit in the mask. [rows] each"""
    rest = n - sizes
    return (
        n / np.maximum(sizes * (sizes - 1), 1),
        -n / np.maximum(sizes * rest, 1),
        n / np.maximum(rest * (rest - 1), 1),
    )


def over_pairs(masks: Floats, both: Floats, one: Floats, none: Floats) -> Floats:
    """Sums the weighted values of masks for every pair. [rows, units], [rows] three times -> [units, units]"""
    alone = ((one - none)[:, None] * masks).sum(0)
    sums = masks.T @ ((both - 2 * one + none)[:, None] * masks) + alone + alone[:, None] + none.sum()
    np.fill_diagonal(sums, 0)
    return np.asarray(sums)


def exact(masks: Floats, values: Floats) -> PairValues:
    """Exact values from all masks, [2ⁿ, units] with the empty one first, and their values."""
    n, sizes = masks.shape[1], masks.sum(1)
    share = 1 / np.array([comb(n, int(size)) for size in sizes])
    pair = over_pairs(masks, *(weight * share * values for weight in pair_weights(n, sizes)))
    found = PairValues(
        single=single_weights(masks).T @ (share * values) if n else np.zeros(0),
        pair=pair,
        error=np.zeros_like(pair),
        listed=~np.eye(n, dtype=bool),
        empty=float(values[0]),
        maskings=len(masks),
        exact=True,
    )
    inner = (sizes > 0) & (sizes < n)
    every = Judged(masks[inner], values[inner], share[inner])
    return replace(found, forecast=forecast(found, every, every, held_out=False))


def estimate(plan: ComplementPairs, values: Floats, ends: Floats, said: Floats, *, sparse: bool) -> PairValues:
    """Estimates from pairs of masks with values [2, pairs], and the masks in `ends` (all of the outer sizes) with
    theirs.
    """
    n, count = plan.masks.shape[1], len(plan.masks)
    sizes = ends.sum(1)
    share = 1 / np.array([comb(n, int(size)) for size in sizes])
    of_ends = single_weights(ends) * share[:, None]
    pairs_of_ends = [weight * share for weight in pair_weights(n, sizes)]
    single, pair, variance = np.zeros(n), np.zeros((n, n)), np.zeros((n, n))
    listed = ~np.eye(n, dtype=bool)
    for learned, judged in folds(count, sparse):
        masks = np.concatenate([ends, plan.masks[learned], 1 - plan.masks[learned]])
        fit = (boosted if sparse else ridge)(masks, np.concatenate([said, *values[:, learned]]))
        if sparse:
            listed = strongest(fit.pair, n)
        tested, part = plan.masks[judged], judged.sum() / (count if not sparse else judged.sum())
        missed = values[:, judged] - np.stack([fit(tested), fit(1 - tested)])
        # For pairs, the complement counts the same; for single units, it counts with the opposite sign.
        together, apart = missed.sum(0) / 2 / plan.chance[judged], (missed[0] - missed[1]) / 2 / plan.chance[judged]
        beyond = said - fit(ends)
        weights = pair_weights(n, tested.sum(1))
        mean = over_pairs(tested, *(weight * together for weight in weights)) / judged.sum()
        square = over_pairs(tested, *((weight * together) ** 2 for weight in weights)) / judged.sum()
        pair += part * (fit.pair + over_pairs(ends, *(weight * beyond for weight in pairs_of_ends)) + mean)
        variance += part**2 * np.maximum(square - mean**2, 0) / (judged.sum() - 1)
        single += part * (
            fit.single + fit.pair.sum(1) / 2 + beyond @ of_ends + apart @ single_weights(tested) / judged.sum()
        )
    return PairValues(
        single, pair * listed, np.sqrt(variance), listed, float(said[0]), len(ends) + 2 * count, exact=False
    )


def folds(count: int, sparse: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The draws that a function is fitted to, and the draws that estimate its error."""
    fold = np.arange(count) % (2 if sparse else _FOLDS)
    for number in range(1 if sparse else _FOLDS):
        yield fold != number, fold == number


def strongest(pair: Floats, most: int) -> np.ndarray:
    """The `most` pairs with the largest coefficients. [units, units] -> [units, units]"""
    size = np.abs(pair)
    least = max(np.sort(np.triu(size, 1).ravel())[-most], np.finfo(np.float64).tiny)
    return np.asarray(size >= least)


@dataclass(frozen=True, eq=False)
class Judged:
    """Masks, the model's values for them, and their weights."""

    masks: Floats  # [rows, units]
    values: Floats  # [rows]
    weights: Floats  # [rows]

    def explained(self, guess: Floats) -> float:
        """R² of a prediction; NaN if the value never changes."""
        spread = self.weights @ (self.values - np.average(self.values, weights=self.weights)) ** 2
        noise = (1e-6 * np.abs(self.values).max()) ** 2 * self.weights.sum()
        return float(1 - self.weights @ (self.values - guess) ** 2 / spread) if spread > noise else float("nan")


def forecast(found: PairValues, asked: Judged, test: Judged, *, held_out: bool) -> Forecast | None:
    """How well sums of scores predict the values of masks. A pair whose 95 % interval includes 0 counts as 0."""
    if len(found.single) < 3:
        return None
    clear = np.where(np.abs(found.pair) > 1.96 * found.error, found.pair, 0.0)
    alone = found.empty + test.masks @ found.single
    pairs = ((test.masks @ clear) * test.masks).sum(1) / 2 - test.masks @ clear.sum(1) / 2
    # The least-squares fit: no other scores of single units predict the evaluated masks better.
    design, root = np.insert(asked.masks, 0, 1.0, axis=1), np.sqrt(asked.weights)
    fitted = np.linalg.lstsq(design * root[:, None], asked.values * root, rcond=None)[0]
    best = fitted[0] + test.masks @ fitted[1:]
    return Forecast(
        test.explained(alone), test.explained(best), test.explained(alone + pairs), len(test.masks), held_out
    )
