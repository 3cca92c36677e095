"""Part synthetic of the ROAR study: eq. (1) on the authors' draw (figure 3), and over other draws.

x = a z / 10 + d η + ε / 10, y = [z > 0]; four of sixteen features are informative. z, η and ε are one standard normal
number each per example; a and d are drawn once. The four informative features can replace each other, so an importance
measure that is right about the model need not name them all. The importance of a feature is the absolute weight of a
logistic regression without penalty; a removed feature stays 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import scipy.optimize
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from troth.statistics import Floats
from troth.studies import Section
from troth.studies._results import Line, draw_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEATURES, INFORMATIVE = 16, 4
# The classes are separable, so the weights would grow forever: the stopping rule is part of the problem.
_STOP = {"maxiter": 50, "gtol": 1e-6, "ftol": 1e-10}
SEED = 0  # the authors' draw
SPREAD = range(20)  # draws of a and d, to see how much figure 3 depends on the authors' draw
_FALLEN = 0.9  # accuracy is 1 while one informative feature is left, and 0.5 after that


@dataclass
class SyntheticProblem:
    """The examples as a product of a basis and loadings, with as many dimensions as there are random variables."""

    basis: Floats  # [examples, dimensions]
    loadings: Floats  # [dimensions, features]
    labels: NDArray[np.bool_]
    train: int  # number of training examples; the others are for testing
    _known: dict[frozenset[int], tuple[Floats, float]] = field(default_factory=dict)

    def fit(self, removed: Sequence[int]) -> tuple[Floats, float]:
        """|weight| of every feature, and the test accuracy of a model trained without some of the features."""
        key = frozenset(removed)
        if key not in self._known:
            self._known[key] = self._fit(key)
        return self._known[key]

    def _fit(self, removed: frozenset[int]) -> tuple[Floats, float]:
        left = np.array([feature not in removed for feature in range(self.loadings.shape[1])])
        # X w = basis (loadings w): the same steps as on the features themselves, at a fraction of the cost.
        loadings = self.loadings * left
        signed = self._signed_basis

        def loss(weights: Floats) -> tuple[float, Floats]:
            against = -(signed @ torch.from_numpy(np.concatenate([loadings @ weights[1:], weights[:1]])))
            slope = (signed.T @ against.sigmoid()).numpy() / -len(signed)
            return float(softplus(against).mean()), np.concatenate([slope[-1:], slope[:-1] @ loadings])

        start = np.zeros(1 + len(left))
        weights = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options=_STOP).x
        predicted = self.basis[self.train :] @ (loadings @ weights[1:]) + weights[0] > 0
        return np.abs(weights[1:]), float((predicted == self.labels[self.train :]).mean())

    @cached_property
    def _signed_basis(self) -> Tensor:
        """[train, dimensions + 1] the training examples and a constant, multiplied by 1 or −1 by class."""
        with_constant = np.concatenate([self.basis, np.ones((len(self.basis), 1))], axis=1)[: self.train]
        return torch.from_numpy(with_constant * np.where(self.labels, 1.0, -1.0)[: self.train, None])


def problem(train: int = 200_000, test: int = 50_000, seed: int = SEED) -> SyntheticProblem:
    """Examples of eq. (1)."""
    generator = np.random.default_rng(seed)
    a = np.zeros(FEATURES)
    a[:INFORMATIVE] = generator.standard_normal(INFORMATIVE)
    d = generator.standard_normal(FEATURES)
    z, eta, epsilon = (generator.standard_normal((train + test, 1)) for _ in range(3))
    features = a * z / 10 + d * eta + epsilon / 10
    values, vectors = np.linalg.eigh(features.T @ features)
    real = values > values.max() * 1e-12
    return SyntheticProblem(features @ vectors[:, real], vectors[:, real].T, z[:, 0] > 0, train)


def orders(problem: SyntheticProblem) -> dict[str, list[int]]:
    """The order in which features are removed by ROAR, by Recursive ROAR, by the truth, and in the worst case.

    The truth does not order informative features among themselves, nor the others: their order is that of Recursive
    ROAR.
    """
    features = problem.loadings.shape[1]
    recursive: list[int] = []
    while len(recursive) < features:
        importance = problem.fit(recursive)[0].copy()
        importance[recursive] = -1
        recursive.append(int(importance.argmax()))
    once = np.argsort(-problem.fit([])[0], kind="stable").tolist()
    truth = sorted(recursive, key=lambda feature: feature >= INFORMATIVE)
    return {"roar": once, "recursive": recursive, "truth": truth, "worst": truth[::-1]}


def curves(problem: SyntheticProblem) -> dict[str, list[float]]:
    """Test accuracy after 0, 1, … all features are removed, by order."""
    counts = range(problem.loadings.shape[1] + 1)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # steps this small are slower on several threads
    try:
        return {name: [problem.fit(order[:count])[1] for count in counts] for name, order in orders(problem).items()}
    finally:
        torch.set_num_threads(threads)


def falls(curves: Mapping[str, Sequence[float]]) -> dict[str, int]:
    """The number of features that each order removes before the model can no longer predict the class."""
    return {
        name: next(count for count, accuracy in enumerate(curve) if accuracy < _FALLEN)
        for name, curve in curves.items()
    }


def spread(train: int = 20_000, test: int = 5_000, seeds: Iterable[int] = SPREAD) -> dict[str, list[int]]:
    """`falls` for many draws, one number per draw; a tenth of the examples is enough for that."""
    by_draw = [falls(curves(problem(train, test, seed))) for seed in seeds]
    return {name: [counts[name] for counts in by_draw] for name in ("roar", "recursive", "truth", "worst")}


def sections() -> Iterator[Section]:
    found = curves(problem())
    rows = [[count, *values] for count, values in enumerate(zip(*found.values(), strict=True))]
    fall = falls(found)
    words = (
        "Accuracy by number of removed features, on the authors' draw (seed 0). Four of sixteen are informative and "
        f"can replace each other: Recursive ROAR removes them first, as the truth does, and falls at "
        f"{fall['recursive']}; ROAR falls at {fall['roar']}."
    )
    lines = {name: Line(range(len(values)), values) for name, values in found.items()}
    draw = partial(draw_lines, panels={"": lines}, across="features removed", up="accuracy")
    yield Section("synthetic", "Eq. (1), figure 3", ["removed", *found], rows, words, found, draw)
    by_order, draws = spread(), len(SPREAD)
    counts = [[count, *(fallen.count(count) for fallen in by_order.values())] for count in range(4, 17)]
    same = sum(roar == truth for roar, truth in zip(by_order["roar"], by_order["truth"], strict=True))
    words = (
        f"In how many of {draws} draws (seeds 0 to {SPREAD[-1]}, 20,000 examples) accuracy falls when this many "
        f"features are removed. ROAR falls where the truth does in {same} of them: how long it stays up depends on the "
        "draw."
    )
    title = f"Eq. (1) over {draws} draws"
    draw = partial(_draw_spread, by_order=by_order)
    yield Section("synthetic", title, ["falls at", *by_order], counts, words, {"falls": by_order}, draw)


def _draw_spread(figure: Figure, by_order: Mapping[str, Sequence[int]]) -> None:
    """When each order's accuracy falls, one dot per draw."""
    axes = figure.subplots()
    for place, (name, fallen) in enumerate(by_order.items()):
        beside = np.zeros(len(fallen))
        for value in set(fallen):
            same = np.equal(fallen, value)
            beside[same] = (np.arange(same.sum()) - (same.sum() - 1) / 2) * 0.03
        axes.plot(fallen, place + beside, "o", markersize=4, label=name)
    axes.set(xlabel="features removed when accuracy falls", yticks=range(len(by_order)), yticklabels=list(by_order))
