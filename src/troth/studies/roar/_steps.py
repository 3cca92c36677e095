"""How much is erased at each step, and which tokens: the most important ones, those already erased counted first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from troth.core.errors import TrothError
from troth.metrics._erasing import basis_points

Step = float | Literal["one"]
Counted = Literal["share", "tokens"]
ALL = 10_000  # basis points
MOST = 10  # tokens, where one is erased per step


@dataclass(frozen=True)
class Steps:
    """Amounts erased, in all, step by step: shares in basis points, or numbers of tokens."""

    counted: Counted
    amounts: tuple[int, ...]  # without 0

    @property
    def places(self) -> list[float]:
        """Where a curve's points stand: shares from 0 to 1, or numbers of tokens."""
        scale = ALL if self.counted == "share" else 1
        return [amount / scale for amount in (0, *self.amounts)]

    @property
    def inner(self) -> tuple[int, ...]:
        """Amounts that each measure has a training of its own for: at 100 % nothing is left to choose from."""
        return tuple(amount for amount in self.amounts if (self.counted, amount) != ("share", ALL))


def steps_of(step: Step, most: int = MOST) -> Steps:
    """0.1 is 10 %, 20 %, … 100 %; "one" is one token more each time, `most` times.

    >>> steps_of(0.25).amounts, steps_of("one", 3).amounts
    ((2500, 5000, 7500, 10000), (1, 2, 3))
    """
    if step == "one":
        if most < 1:
            raise TrothError(f"most must be 1 token or more, not {most}")
        return Steps("tokens", tuple(range(1, most + 1)))
    if isinstance(step, str | bool) or not 0 < step <= 1 or ALL % (points := basis_points(step)):
        raise TrothError(f"step must divide 1 (0.1, 0.05, 0.25, …) or be 'one' token, not {step!r}")
    return Steps("share", tuple(range(points, ALL + 1, points)))


def erase(
    scores: NDArray[np.float32],
    left: NDArray[np.bool_],
    sizes: Sequence[int] | NDArray[np.int64],
    counted: str,
    amount: int,
) -> NDArray[np.bool_]:
    """What is left of each text's tokens once this much of it is erased in all; one text after the other.

    Tokens that are erased already come first, then the highest scores, of equal ones the earlier.

    >>> erase(np.float32([1, 3, 3, 2]), np.array([False, True, True, True]), [4], "tokens", 2).tolist()
    [False, False, True, True]
    """  # fmt: skip
    n = np.asarray(sizes, np.int64)
    count = n * amount // ALL if counted == "share" else np.minimum(n, amount)
    text = np.repeat(np.arange(len(n)), n)
    order = np.lexsort((-scores, left, text))  # stable: of equal ones the earlier
    rank = np.empty(len(text), np.int64)
    rank[order] = np.arange(len(text)) - np.repeat(n.cumsum() - n, n)
    return left & (rank >= count[text])
