"""Stopping rule of sampling methods: stop as soon as the interval of every score is narrow enough.

The interval is the 95 % confidence interval: 1.96 standard errors to either side (Student's t for few draws). It is
narrow enough if this half-width is at most `tolerance` times the largest score. Because the same draws decide when to
stop, it covers slightly less than 95 % (measured in `tests/explainers/test_tolerance.py`).
"""

from collections.abc import Iterator

from torch import Tensor

from troth.core.errors import TrothError

QUANTILE = 1.959964  # quantile of the normal distribution for 95 % intervals
_GROWTH = 1.5


def check(name: str, tolerance: float | None) -> None:
    if tolerance is not None and not tolerance > 0:
        raise TrothError(f"{name}: tolerance must be above 0 (0.1: ± 10 % of the largest score), not {tolerance}")


def budgets(first: int, most: int, tolerance: float | None) -> Iterator[int]:
    """The total number of samples after each round; without a tolerance there is one round."""
    count = most if tolerance is None else min(first, most)
    while count < most:
        yield count
        count = int(_GROWTH * count) + 1
    yield most


def narrow(scores: Tensor, errors: Tensor, tolerance: float | None, quantile: float = QUANTILE) -> bool:
    """Whether every interval is narrow enough. [players], [players]"""
    if tolerance is None or not len(scores):
        return False
    return bool(quantile * errors.max() <= tolerance * scores.abs().max())


def said(errors: Tensor, used: int, samples: int, quantile: float = QUANTILE) -> str:
    """A note on the width of the intervals and the number of samples."""
    return f"95 % intervals of ± {quantile * float(errors.max()):.2g} or less, {used} of {samples} samples"
