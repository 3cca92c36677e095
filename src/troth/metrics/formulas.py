"""The arithmetic of every metric, independent of models: numpy in, numpy out.

Ratios are on the last axis. `p_full` (and `p_zero`) has no ratio axis, `p_erased` and `p_kept` may have one:

    p_full ()          p_erased () or [ratios]
    p_full [examples]  p_erased [examples] or [examples, ratios]

A scalar can be combined with any shape; other pairs of shapes that do not match raise an error. Scalars return a plain
float; undefined values are NaN. Where an author's released code differs from the paper, the paper is the default, and
`variant="released"` selects the code.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import trapezoid

from troth.core.errors import TrothError
from troth.metrics._agreement import token_f1 as token_f1

Floats = NDArray[np.float64]
Values = Any  # a float for scalars, otherwise an array; typed as loosely as numpy's own mean
Variant = Literal["paper", "released"]
_NEAR = 1e-5  # relative to the range of the values: closer values are ties of a rank correlation


# Erasing once


def comprehensiveness(p_full: ArrayLike, p_erased: ArrayLike) -> Values:
    """The loss of probability without the explanation's units (DeYoung et al. 2020), signed; higher is better.

    >>> comprehensiveness([0.75, 0.5], [[0.5, 0.25], [0.5, 0.75]])  # two examples, two ratios
    array([[ 0.25,  0.5 ],
           [ 0.  , -0.25]])
    """
    erased, full = _aligned(p_erased, p_full)
    return _plain(full - erased)


def sufficiency(p_full: ArrayLike, p_kept: ArrayLike) -> Values:
    """The loss of probability with only the explanation's units (DeYoung et al. 2020), signed; lower is better.

    >>> sufficiency(0.75, 0.5)
    0.25
    """
    return comprehensiveness(p_full, p_kept)


def log_odds(p_full: ArrayLike, p_erased: ArrayLike, *, logs_given: bool = False) -> Values:
    """log p_erased − log p_full (Shrikumar et al. 2017); lower is better, −inf if p_erased is 0.

    With `logs_given`, both arguments are log-probabilities, which never underflow.
    """
    erased, full = _aligned(p_erased, p_full)
    if logs_given:
        return _plain(erased - full)
    with np.errstate(divide="ignore", invalid="ignore"):
        return _plain(np.log(erased) - np.log(full))


def normalized_sufficiency(
    p_full: ArrayLike, p_kept: ArrayLike, p_zero: ArrayLike, *, variant: Variant = "paper"
) -> Values:
    """(S − S₀) / (1 − S₀) with S = 1 − max(0, p_full − p_kept) and S₀ = S of the empty input; higher is better.

    1 preserves the whole prediction, 0 no more than the empty input does; NaN if S₀ = 1 (the empty input predicts as
    well). "released" lowers S₀ by 1e-4 and clips to [0, 1].

    >>> round(normalized_sufficiency(0.9, 0.7, p_zero=0.5), 6)
    0.5
    """
    loss, most = _losses(p_full, p_kept, p_zero)
    if _released(variant):
        baseline = 1 - most - 1e-4
        return _plain(np.clip((1 - loss - baseline) / (1 - baseline), 0, 1))
    return _plain(_ratio(most - loss, most))


def normalized_comprehensiveness(
    p_full: ArrayLike, p_erased: ArrayLike, p_zero: ArrayLike, *, variant: Variant = "paper"
) -> Values:
    """max(0, p_full − p_erased) / (1 − S₀), with S₀ as in normalized_sufficiency; higher is better, NaN if S₀ = 1.

    "released" increases an S₀ of 1 by 1e-5, so that the score is 0, and clips to [0, 1].

    >>> round(normalized_comprehensiveness(0.9, 0.8, p_zero=0.5), 6)
    0.25
    """
    loss, most = _losses(p_full, p_erased, p_zero)
    if _released(variant):
        room = 1 - (1 - most)
        return _plain(np.clip(loss / np.where(room == 0, -1e-5, room), 0, 1) + 0.0)  # + 0.0 avoids negative zero
    return _plain(_ratio(loss, most))


def aopc(values_by_ratio: ArrayLike, *, variant: Variant = "paper") -> Values:
    """Area over the perturbation curve: the mean over the ratios. "released" (AML) divides by one more than their
    number.

    >>> aopc([[0.0, 0.5], [1.0, 0.5]])
    array([0.25, 0.75])
    """
    values = np.atleast_1d(np.asarray(values_by_ratio, np.float64))
    count = values.shape[-1]
    return _plain(_ratio(values.sum(-1), np.array(count + 1.0 if _released(variant) and count else count)))


def aopc_bounds(p_by_subset: ArrayLike) -> tuple[Values, Values]:
    """The lowest and the highest AOPC of any order in which all n units are erased one by one (Edin et al. 2025).

    p_by_subset[..., S] is p without the units of subset S, for all 2ⁿ subsets: bit i of S stands for unit i, so the
    whole input is first and the empty one last. Exact: the best order that ends in S extends the best order that ends
    in S without one of its units.

    >>> aopc_bounds([0.75, 0.25, 0.5, 0.5])  # without nothing, the first unit, the second, both
    (0.25, 0.375)
    """
    p = np.atleast_1d(np.asarray(p_by_subset, np.float64))
    units = p.shape[-1].bit_length() - 1
    if p.shape[-1] != 1 << max(units, 0):
        raise TrothError(f"aopc_bounds: n units have 2ⁿ subsets on the last axis, not {p.shape[-1]}")
    subsets, bits = np.arange(p.shape[-1]), 1 << np.arange(units)
    sizes = (subsets[:, None] & bits > 0).sum(1)
    low = p[..., :1] - p  # sum along the worst order that leads to each subset
    high = low.copy()
    for size in range(2, units + 1):
        own = subsets[sizes == size]
        without_one = (own[:, None] ^ bits)[own[:, None] & bits > 0].reshape(len(own), size)
        low[..., own] += low[..., without_one].min(-1)
        high[..., own] += high[..., without_one].max(-1)
    count = np.array(float(units))
    return _plain(_ratio(low[..., -1], count)), _plain(_ratio(high[..., -1], count))


def normalized_aopc(value: ArrayLike, low: ArrayLike, high: ArrayLike) -> Values:
    """(AOPC − low) / (high − low), from 0 for the worst order to 1 for the best (Edin et al. 2025); NaN if high = low.

    If the value exceeds a bound, as is possible for bounds found by beam search, the bound is replaced by the value.

    >>> normalized_aopc([0.25, 0.3125, 0.5], low=0.25, high=0.375)
    array([0. , 0.5, 1. ])
    """
    reached = np.asarray(value, np.float64)
    least, most = np.minimum(low, reached), np.maximum(high, reached)
    return _plain(_ratio(reached - least, most - least))


# Erasing step by step


def acu(ratios: ArrayLike, explained: ArrayLike, random: ArrayLike) -> Values:
    """Area between the performance curves of random erasure and of the explanation (Madsen et al. 2024, eq. 3).

    Positive if erasing by the explanation lowers performance more than erasing at random. Curves: [..., ratios].

    >>> acu([0, 0.5, 1], explained=[1.0, 0.5, 0.5], random=[1.0, 1.0, 0.5])
    0.25
    """
    steps = _rising(ratios)
    return _plain(trapezoid(_curve(random, steps) - _curve(explained, steps), steps, axis=-1))


def racu(ratios: ArrayLike, explained: ArrayLike, random: ArrayLike, *, clip: bool = False) -> Values:
    """ACU relative to an explanation that reaches the final random performance at once (Madsen et al. 2022, eq. 3).

    NaN if the area of that explanation is not positive. `clip` limits each value to [−1, 1], as ROAR's released code
    does.

    >>> racu([0, 0.5, 1], explained=[1.0, 0.5, 0.5], random=[1.0, 1.0, 0.5])
    0.6666666666666666
    """
    steps = _rising(ratios)
    baseline = _curve(random, steps)
    largest = trapezoid(baseline - baseline[..., -1:], steps, axis=-1)
    value = _ratio(np.asarray(acu(steps, explained, random)), np.asarray(largest))
    return _plain(np.clip(value, -1, 1) if clip else value)


def decision_flip(ratios: ArrayLike, predictions: ArrayLike) -> Values:
    """The erased fraction at which the predicted class first changes; 1 if it never does (lower is better).

    ratios[0] = 0 is the full input; ratios have the shape [steps] or, if they differ between examples, the shape of
    predictions, [..., steps].

    >>> decision_flip([0, 0.25, 0.5, 1], [[1, 1, 0, 1], [2, 2, 2, 2]])
    array([0.5, 1. ])
    """
    fractions, classes = np.asarray(ratios, np.float64), np.asarray(predictions)
    if fractions.ndim == 0 or fractions.shape[-1:] != classes.shape[-1:]:
        raise TrothError(f"decision_flip: ratios {fractions.shape} and predictions {classes.shape} differ in length")
    if fractions.size == 0 or np.any(fractions[..., 0] != 0):
        raise TrothError("decision_flip: ratios must begin with 0, the full input")
    fractions, classes = np.broadcast_arrays(fractions, classes)
    changed = classes != classes[..., :1]
    first = changed.argmax(-1)[..., None]
    reached = np.take_along_axis(fractions, first, -1)[..., 0]
    return _plain(np.where(changed.any(-1), reached, 1.0))


def monotonicity(p_by_step: ArrayLike, *, every: bool = False) -> Values:
    """The fraction of steps at which p does not fall while units are added from least to most important; higher is
    better.

    With `every`, 1 if no step falls and 0 otherwise, as in Arya et al. (2019). NaN if there is no step.

    >>> monotonicity([0.25, 0.5, 0.5, 0.375, 0.75])
    0.75
    """
    rises = np.diff(np.atleast_1d(np.asarray(p_by_step, np.float64)), axis=-1)  # [..., steps - 1]
    if rises.shape[-1] == 0:
        return _plain(np.full(rises.shape[:-1], np.nan))
    value = (rises >= 0).all(-1) if every else (rises >= 0).mean(-1)
    return _plain(np.where(np.isnan(rises).any(-1), np.nan, value))


def importance_correlation(scores: ArrayLike, p_erased: ArrayLike) -> Values:
    """Pearson correlation of a unit's score with the drop in p when it is erased (CORR, Arya et al. 2019).

    p_erased[..., i] is p without unit i. Higher is better; NaN for constant scores or probabilities.
    """
    score, left = np.asarray(scores, np.float64), np.asarray(p_erased, np.float64)
    if score.ndim == 0 or score.shape != left.shape:
        raise TrothError(f"importance_correlation: scores {score.shape} and p_erased {left.shape} differ in shape")
    if score.shape[-1] == 0:
        return _plain(np.full(score.shape[:-1], np.nan))
    x, y = _centered(score), _centered(-left)
    scale = np.sqrt((x * x).sum(-1) * (y * y).sum(-1))
    return _plain(np.clip(_ratio((x * y).sum(-1), scale), -1, 1))


def infidelity(scores: ArrayLike, erased: ArrayLike, change: ArrayLike, *, normalize: bool = True) -> Values:
    """Mean squared difference between the summed scores of the erased units and the observed change (Yeh et al. 2019,
    eq. 1).

    `erased` is [samples, units] of 0 and 1, `change` is f(x) − f(erased) [samples]; lower is better. `normalize` first
    multiplies the scores by the factor ≥ 0 that fits best, so that methods with different scales can be compared.

    >>> infidelity([2, 0], erased=[[1, 0], [0, 1]], change=[2.0, 1.0], normalize=False)
    0.5
    """
    predicted = np.asarray(erased, np.float64) @ np.asarray(scores, np.float64)
    observed = np.asarray(change, np.float64)
    if normalize:
        fit = predicted @ observed / (predicted @ predicted) if predicted.any() else 0.0
        predicted = max(0.0, fit) * predicted
    return _plain(np.mean((predicted - observed) ** 2) if len(observed) else np.nan)


def linear_score(scores: ArrayLike, kept: ArrayLike, log_odds: ArrayLike) -> float:
    """Spearman's correlation of the kept units' summed scores with the log-odds (LDS, Cohen-Wang et al. 2024).

    `kept` is [subsets, units] of 0 and 1, `log_odds` is [subsets]; higher is better, NaN if either is constant. Values
    that differ by less than 1e-5 of their range are ties.

    >>> linear_score([2, 1], kept=[[0, 0], [1, 0], [0, 1], [1, 1]], log_odds=[-1.0, 0.5, 0.0, 7.0])
    1.0
    """
    observed = np.asarray(log_odds, np.float64)
    if len(observed) < 2:
        return float("nan")
    x = _centered(_ranks(np.asarray(kept, np.float64) @ np.asarray(scores, np.float64)))
    y = _centered(_ranks(observed))
    return float(np.clip(_ratio(np.asarray(x @ y), np.sqrt((x @ x) * (y @ y))), -1, 1))


def diagnosticity(explained: ArrayLike, random: ArrayLike, higher_is_better: bool) -> float:
    """The fraction of (explanation, random) pairs in which the metric prefers the explanation (Chan et al. 2022).

    A tie does not count as preferred; pairs with a NaN are left out; NaN if no pair is left. Shapes are broadcast:
    [explainers, examples] can be combined with one random explanation per example.

    >>> diagnosticity([0.5, 0.25, 0.25], [0.25, 0.25, 0.5], higher_is_better=True)
    0.3333333333333333
    """
    real, chance = np.broadcast_arrays(np.asarray(explained, np.float64), np.asarray(random, np.float64))
    won = real > chance if higher_is_better else real < chance
    defined = ~(np.isnan(real) | np.isnan(chance))
    return float(won[defined].mean()) if defined.any() else float("nan")


def sparsity(scores: ArrayLike, ratios: ArrayLike, *, variant: Variant = "paper") -> Values:
    """The fraction of Σ|score| in the top int(units · ratio) units, for each ratio; higher is sparser, NaN if all
    scores are 0.

    "released" (ROAR) counts one unit more.

    >>> sparsity([0.5, -1.0, 0.25, 0.25], [0.25, 0.5, 1])
    array([0.5 , 0.75, 1.  ])
    """
    fractions = np.asarray(ratios, np.float64)
    if np.any((fractions < 0) | (fractions > 1)):
        raise TrothError(f"sparsity: ratios are fractions from 0 to 1, not {ratios!r}")
    # Corrects rounding: 100 units at 0.29 are 29, but 100 * 0.29 is 28.999999999999996.
    counts = np.floor(np.size(scores) * fractions + 1e-9).astype(np.int64)
    return top_share(scores, counts + 1 if _released(variant) else counts)


def top_share(scores: ArrayLike, counts: ArrayLike) -> Values:
    """The fraction of Σ|score| in the `counts` largest units (all, if there are fewer); NaN if all scores are 0.

    >>> top_share([1, 2, 1], 1)
    0.5
    """
    magnitudes = -np.sort(-np.abs(np.asarray(scores, np.float64)))
    sums = np.concatenate([[0.0], np.cumsum(magnitudes)])
    top = sums[np.clip(np.asarray(counts, np.int64), 0, len(magnitudes))]
    return _plain(_ratio(top, sums[-1]))


def _aligned(p_by_ratio: ArrayLike, p_full: ArrayLike) -> tuple[Floats, Floats]:
    """Both as arrays; p_full gets a last axis of size one if the other has ratios."""
    by_ratio, full = np.asarray(p_by_ratio, np.float64), np.asarray(p_full, np.float64)
    shape = by_ratio.shape
    if full.ndim == 0 or shape == () or full.shape in (shape, (*shape[:-1], 1)):
        return by_ratio, full
    if full.shape == shape[:-1]:
        return by_ratio, full[..., None]
    raise TrothError(f"p_full {full.shape} does not fit {shape}: give one value per example, ratios on the last axis")


def _losses(p_full: ArrayLike, p_left: ArrayLike, p_zero: ArrayLike) -> tuple[Floats, Floats]:
    """The losses of probability for the remaining units and for the empty input (1 − S₀); a gain counts as 0."""
    (left, full), (_, zero) = _aligned(p_left, p_full), _aligned(p_left, p_zero)
    return np.maximum(0.0, full - left), np.maximum(0.0, full - zero)


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """The quotient; NaN if the denominator is not positive."""
    with np.errstate(invalid="ignore"):
        return np.asarray(numerator / np.where(denominator > 0, denominator, np.nan))


def _rising(ratios: ArrayLike) -> Floats:
    steps = np.asarray(ratios, np.float64)
    if steps.ndim != 1 or len(steps) < 2 or np.any(np.diff(steps) <= 0):
        raise TrothError(f"an area needs at least two ratios that rise, not {ratios!r}")
    return steps


def _curve(performance: ArrayLike, steps: Floats) -> Floats:
    curve = np.asarray(performance, np.float64)
    if curve.shape[-1:] != steps.shape:
        raise TrothError(f"{len(steps)} ratios need as many values on a curve's last axis, not shape {curve.shape}")
    return curve


def _centered(values: Floats) -> Floats:
    # Rounding errors in the mean of equal numbers would look like variation.
    constant = values.max(-1, keepdims=True) == values.min(-1, keepdims=True)
    return np.where(constant, 0.0, values - values.mean(-1, keepdims=True))


def _ranks(values: Floats) -> Floats:
    """Ranks from 0; values so close that rounding errors may order them share their mean rank."""
    order = np.argsort(values, kind="stable")
    rising = values[order]
    new = np.diff(rising, prepend=rising[:1]) > _NEAR * np.ptp(rising)
    level = np.cumsum(new)  # equal for ties
    counts = np.bincount(level)
    ranks = np.empty(len(values))
    ranks[order] = (np.cumsum(counts) - (counts + 1) / 2)[level]
    return ranks


def _released(variant: str) -> bool:
    if variant not in ("paper", "released"):
        raise TrothError(f"no variant is called {variant!r}; there are: paper, released")
    return variant == "released"


def _plain(values: Any) -> Values:
    return float(values) if np.ndim(values) == 0 else values
