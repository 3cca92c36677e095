"""Quadratic functions of masks, with terms for single units and pairs, fitted to a model's outputs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_TREES, _RATE = 200, 0.1


@dataclass(frozen=True, eq=False)
class Quadratic:
    """constant + Σ single · x + Σ_{i<j} pair · xᵢ xⱼ"""

    constant: float
    single: Floats  # [units]
    pair: Floats  # [units, units] symmetric, 0 on the diagonal

    def __call__(self, masks: Floats) -> Floats:
        """[rows, units] -> [rows]"""
        return np.asarray(self.constant + masks @ self.single + ((masks @ self.pair) * masks).sum(1) / 2)


def ridge(masks: Floats, values: Floats) -> Quadratic:
    """Ridge regression on all pairs; the penalty minimizes the leave-one-out error. [rows, units], [rows]"""
    from sklearn.linear_model import RidgeCV

    n = masks.shape[1]
    first, second = np.triu_indices(n, 1)
    signs = 2 * masks - 1  # −1 and 1: centered, so that the penalty does not depend on the size of a mask
    model = RidgeCV(alphas=10.0 ** np.arange(-4, 4)).fit(np.hstack([signs, signs[:, first] * signs[:, second]]), values)
    pair = np.zeros((n, n))
    pair[first, second] = pair[second, first] = model.coef_[n:]
    constant = float(model.intercept_) - model.coef_[:n].sum() + pair.sum() / 2
    return Quadratic(constant, 2 * model.coef_[:n] - 2 * pair.sum(1), 4 * pair)


def boosted(masks: Floats, values: Floats) -> Quadratic:
    """Selects few pairs with boosted trees of depth two, each of which is exactly such a function.

    ProxySPEX uses boosted trees in this way (Butler et al., 2025); here only for pairs. [rows, units], [rows]
    """
    from sklearn.ensemble import GradientBoostingRegressor

    model = GradientBoostingRegressor(n_estimators=_TREES, learning_rate=_RATE, max_depth=2, random_state=0)
    model.fit(masks, values)
    single, pair = np.zeros(masks.shape[1]), np.zeros((masks.shape[1],) * 2)
    for (stage,) in model.estimators_:
        for units, value in _terms(stage.tree_, 0).items():
            if len(units) == 1:
                single[[*units]] += _RATE * value
            elif len(units) == 2:
                pair[tuple(units)] += _RATE * value
    constant = float(model.predict(np.zeros((1, masks.shape[1])))[0])
    return Quadratic(constant, single, pair + pair.T)


def _terms(tree: object, node: int) -> dict[frozenset[int], float]:
    """A tree over binary inputs as a polynomial: (1 − x) · left + x · right."""
    if tree.children_left[node] < 0:  # type: ignore[attr-defined]
        return {frozenset(): float(tree.value[node].item())}  # type: ignore[attr-defined]
    left, right = (_terms(tree, side[node]) for side in (tree.children_left, tree.children_right))  # type: ignore[attr-defined]
    terms = dict(left)
    for units in {*left, *right}:
        joined = units | {int(tree.feature[node])}  # type: ignore[attr-defined]
        terms[joined] = terms.get(joined, 0.0) + right.get(units, 0.0) - left.get(units, 0.0)
    return terms
