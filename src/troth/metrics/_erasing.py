"""Shared code of erasure metrics: which units are at the top, how many they are, and which rows erase or keep them."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import ClassVar, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.integrate import trapezoid
from torch import Tensor

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.outputs import log_probabilities, probabilities
from troth.core.types import Attribution, Question, Score, Scores
from troth.engine.answers import Answers
from troth.engine.probes import Probe, ProbeBatch
from troth.engine.routines import Routine, per_text
from troth.maskings import Masking
from troth.metrics import Erasing, Explain, ExplainOne, formulas, undefined
from troth.metrics.formulas import Floats

Rounding = Literal["floor", "ceil"]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Count = TypeVar("Count", int, Ints)
AOPC_RATIOS = (0.01, 0.05, 0.1, 0.2, 0.5)
_RELEASED_MASKING = "token(id=0)"  # the masking of the authors' released code for normalized metrics
WHOLE_MINUS_EMPTY = "what erasing the whole text changes"
EMPTY_AS_GOOD = "the empty input predicts as well as the whole one (S₀ = 1)"


def ranking(scores: Scores | Tensor) -> Tensor:
    """Units from the highest score to the lowest; ties keep reading order."""
    if isinstance(scores, np.ndarray) and scores.dtype == np.float32 and not np.isnan(scores).any():
        return torch.from_numpy(np.argsort(-scores, kind="stable"))  # faster than torch for so few numbers
    return torch.argsort(torch.as_tensor(scores), descending=True, stable=True)


def count_at(ratio: float, n_units: Count, rounding: Rounding = "floor") -> Count:
    """The number of units, out of n (or out of each n), that a ratio selects, computed in whole basis points: with
    floats it is wrong in one case of eight.

    >>> count_at(0.29, 100), count_at(0.01, 30), count_at(0.01, 30, "ceil")
    (29, 0, 1)
    """
    product = basis_points(ratio) * n_units
    return -(-product // 10_000) if rounding == "ceil" else product // 10_000


def parts_of(units: Ints, size: int, numbers: Floats) -> Ints:
    """Subsets of a given size: all of them if there are no more than rows of random numbers, otherwise random ones.

    [units], [maximum number of subsets, random numbers per unit] -> [subsets, size]
    """
    if comb(len(units), size) <= len(numbers):
        return np.array(list(combinations(units.tolist(), size)), np.int64)
    return np.asarray(units[np.argsort(numbers[:, units], axis=1, kind="stable")[:, :size]])


def basis_points(ratio: float) -> int:
    """A ratio in basis points, as an integer."""
    points = round(ratio * 10_000) if 0 <= ratio <= 1 else -1  # NaN cannot be rounded
    if points < 0 or abs(points - ratio * 10_000) > 1e-6:
        raise TrothError(f"a ratio must lie in [0, 1] and have at most four decimals, not {ratio}")
    return points


def steps_of(step: float, n_units: int) -> list[int]:
    """The number of erased units after each step: each step erases another fraction, at least one unit, until all are
    erased.

    >>> steps_of(0.25, 10), steps_of(0.05, 3)
    ([0, 2, 4, 6, 8, 10], [0, 1, 2, 3])
    """
    size = max(1, basis_points(step) * n_units // 10_000)
    return [*range(0, n_units, size), n_units]


def top_units(scores: Scores, counts: Sequence[int]) -> Tensor:
    """[counts, units] 1 for the units with the highest scores, as many as each count."""
    order = ranking(scores).numpy()
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return torch.from_numpy((rank < np.array(counts)[:, None]).astype(np.float32))


def rankings(attributions: Sequence[Attribution], widest: int) -> Ints:
    """[texts, widest] The `ranking` of each text; padding sorts last."""
    scores = [attribution.scores for attribution in attributions]
    falling = np.full((len(attributions), widest), np.inf, np.float32)
    falling[np.arange(widest) < np.array([len(each) for each in scores])[:, None]] = -np.concatenate(scores)
    falling[np.isnan(falling)] = -np.inf
    return np.argsort(falling, axis=1, kind="stable")


def recursively_erased(
    questions: Sequence[Question],
    attributions: Sequence[Attribution],
    explain: Explain | None,
    masking: Masking,
    points: Sequence[int],
) -> Routine[Bools]:
    """[texts, points, most units] What is left when the top units are erased step by step, with a new explanation at
    each step.

    `points` are the erased fractions in basis points, ascending; 10,000 erases everything without explaining. Without
    `explain` the first ranking is used throughout.
    """
    n_units = np.array([question.n_units for question in questions], np.int64)
    widest = int(n_units.max())
    left = np.arange(widest) < n_units[:, None]
    order = rankings(attributions, widest)
    gone = np.zeros(len(questions), np.int64)
    steps: list[Bools] = []
    for point in points:
        missing = n_units * point // 10_000 - gone
        again = np.flatnonzero((missing > 0) & (gone > 0) & (point < 10_000)).tolist()
        if explain is not None and again:
            bases = [torch.from_numpy(left[text, : n_units[text]].astype(np.float32)) for text in again]
            some = [questions[text].erased(base, masking) for text, base in zip(again, bases, strict=True)]
            order[again] = rankings((yield from explain(some)), widest)
        if point == 10_000:
            left = np.zeros_like(left)
        else:
            there = np.take_along_axis(left, order, 1)
            goes = there & (np.cumsum(there, axis=1) <= missing[:, None])
            left = np.empty_like(left)
            np.put_along_axis(left, order, there & ~goes, 1)
            gone += missing
        steps.append(left)
    return np.stack(steps, axis=1)


def erasing(questions: Sequence[Question], keep: Bools, masking: Masking) -> ProbeBatch:
    """The probe for an array [texts, rows, most units]."""
    counts = np.full(len(questions), keep.shape[1])
    return ProbeBatch(questions, keep.reshape(-1, keep.shape[2]), counts, masking)


def target_probability(answers: Answers, logs: bool = False) -> Floats:
    """[rows] The target's probability in double precision, or its logarithm, which is never −inf; values are returned
    as they are.
    """
    turned = (log_probabilities if logs else probabilities)(answers.logits.double(), answers.outputs)
    return turned.gather(1, answers.target[:, None])[:, 0].numpy()


def why_no_correlation(scores: Scores) -> str:
    """Why a correlation over units is undefined."""
    if len(scores) < 2:
        return "a correlation needs two units"
    return "all scores are equal" if bool((scores == scores[0]).all()) else "masking any unit changes equally much"


@dataclass(frozen=True, kw_only=True)
class Erasure(Erasing):
    """Compares the whole input with the input without the top units, or with the top units only.

    Subclasses define the options, the score of one ratio and how ratios are combined.
    """

    keeps_top: ClassVar[bool] = False  # keeps only the top units, instead of all others
    needs_empty: ClassVar[bool] = False  # also reads the input with every unit erased
    logs: ClassVar[bool] = False  # uses log-probabilities, which never underflow

    rounding: Rounding = "floor"
    masking: str = "delete"

    def __post_init__(self) -> None:
        for ratio in self.shares:
            basis_points(ratio)
        if not self.shares:
            raise TrothError(f"{catalog.name_of(self)}: ratios must hold at least one ratio")
        super().__post_init__()

    @property
    @abstractmethod
    def shares(self) -> tuple[float, ...]:
        """The ratios."""

    @property
    def erased(self) -> tuple[float, float]:
        gone = [1 - share if self.keeps_top else share for share in self.shares]
        return (min(gone), 1.0 if self.needs_empty else max(gone))

    def values(self, full: Floats, left: Floats, empty: Floats) -> formulas.Values:
        """[texts, ratios] The scores, from the model's outputs for the whole inputs [texts, 1], for what is left at
        each ratio [texts, ratios] and for the empty inputs [texts, 1].
        """
        if self.logs:
            return formulas.log_odds(full, left, logs_given=True)
        return formulas.comprehensiveness(full, left)  # sufficiency, if only the top units are kept

    def join(self, values: Floats, counts: Ints) -> Floats:
        """[texts] The score of each text from those of all ratios; `counts` are the numbers of units that each ratio
        selects.
        """
        return np.asarray(formulas.aopc(values))

    def ask(
        self, questions: Sequence[Question], attributions: Sequence[Attribution], explain: Explain
    ) -> Routine[list[Score]]:
        n_units = np.array([question.n_units for question in questions], np.int64)
        counts = np.stack([count_at(ratio, n_units, self.rounding) for ratio in self.shares], axis=1)
        order = rankings(attributions, int(n_units.max()))
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.arange(order.shape[1])[None], 1)
        top = rank[:, None] < counts[:, :, None]  # [texts, ratios, most units]
        rows = [np.ones_like(top[:, :1]), top if self.keeps_top else ~top]
        if self.needs_empty:
            rows.append(np.zeros_like(top[:, :1]))
        answers = yield erasing(questions, np.concatenate(rows, axis=1), self.perturbation)
        return self._scores(counts, target_probability(answers, self.logs).reshape(len(questions), -1))

    def _scores(self, counts: Ints, p: Floats) -> list[Score]:
        """`p` is the output for the whole input, for what is left at each ratio, and for the empty input if that was
        read.
        """
        full, left, empty = p[:, :1], p[:, 1 : 1 + counts.shape[1]], p[:, -1:]
        values = np.asarray(self.values(full, left, empty))
        name = "log_p" if self.logs else "p"
        columns = {
            "counts": counts,
            f"{name}_full": full[:, 0],
            f"{name}_{'kept' if self.keeps_top else 'erased'}": left,
        }
        if self.needs_empty:
            columns[f"{name}_zero"] = empty[:, 0]
        ratios, scores = list(self.shares), []
        joined, is_undefined = self.join(values, counts), np.isnan(values).any(axis=1)
        for value, without, *row in zip(
            joined.tolist(), is_undefined.tolist(), *(column.tolist() for column in columns.values()), strict=True
        ):
            record = {"ratios": list(ratios), **dict(zip(columns, row, strict=True))}
            scores.append(undefined(EMPTY_AS_GOOD, **record) if without else Score(value, record))
        return scores


@dataclass(frozen=True)
class AtRatio(Erasure):
    ratio: float = 0.2

    @property
    def shares(self) -> tuple[float, ...]:
        return (self.ratio,)


@dataclass(frozen=True)
class OverRatios(Erasure):
    """The area over the perturbation curve: the mean over ratios.

    AML's released code divides by one more than the number of ratios, and a ratio that selects no unit scores 0, also
    for sufficiency, where nothing is kept then.
    """

    ratios: tuple[float, ...] = AOPC_RATIOS
    variant: formulas.Variant = "paper"

    @property
    def shares(self) -> tuple[float, ...]:
        return self.ratios

    def join(self, values: Floats, counts: Ints) -> Floats:
        if self.variant == "released":
            values = np.where(counts == 0, 0.0, values)
        return np.asarray(formulas.aopc(values, variant=self.variant))


@dataclass(frozen=True, kw_only=True)
class Normalized(Erasure):
    """Relative to the effect of erasing everything, at each ratio, then averaged.

    `clip` limits each ratio's value to [0, 1]. `variant="released"` is the code of Zhao & Aletras: it clips, adds a
    small constant to the denominator and erases with id 0, unless another masking is given.
    """

    needs_empty = True
    pitfalls = (
        "Undefined if the prediction of the empty input is as high as that of the whole one. If it is nearly as high, "
        "values are unstable and far outside [0, 1], and a few such texts may determine the mean: use clip=true, or "
        "look at the median."
    )

    ratios: tuple[float, ...] = AOPC_RATIOS
    rounding: Rounding = "ceil"
    masking: str = "zero"
    clip: bool = False
    variant: formulas.Variant = "paper"

    def __post_init__(self) -> None:
        if self.variant == "released" and self.masking == "zero":
            object.__setattr__(self, "masking", _RELEASED_MASKING)
        super().__post_init__()

    @property
    def shares(self) -> tuple[float, ...]:
        return self.ratios

    @property
    def divides_by(self) -> str:
        return "" if self.clip or self.variant == "released" else WHOLE_MINUS_EMPTY

    def join(self, values: Floats, counts: Ints) -> Floats:
        return super().join(np.clip(values, 0, 1) if self.clip else values, counts)


@dataclass(frozen=True)
class Stepwise(Erasing):
    """Erases or restores a fixed fraction of the units at each step, beginning with the most important ones."""

    step: float = 0.05
    masking: str = "mask_token"

    def __post_init__(self) -> None:
        if basis_points(self.step) == 0:
            raise TrothError(f"{catalog.name_of(self)}: step must be above 0, not {self.step}")
        super().__post_init__()


@dataclass(frozen=True)
class PerturbationCurve(Stepwise):
    """The area under the curve of the target's probability."""

    bounds = "[0, 1]"
    inserts: ClassVar[bool] = False  # starts with an empty input and restores units, instead of erasing them

    @per_text
    def ask(self, question: Question, attribution: Attribution, explain: ExplainOne) -> Routine[Score]:
        n_units = question.n_units
        counts = steps_of(self.step, n_units)
        top = top_units(attribution.scores, counts)
        keep = top if self.inserts else 1 - top
        answer = yield Probe(question, keep, self.perturbation)
        ratios, p = np.array(counts) / n_units, target_probability(answer)
        return Score(float(trapezoid(p, ratios)), {"ratios": ratios.tolist(), "p": p.tolist()})
