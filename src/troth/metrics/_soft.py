"""What soft metrics share: scores as keep probabilities, and the input with nothing left."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from troth.types import Attribution

ScoreMap = Literal["sigmoid", "min_max", "softmax", "rank"]


def importance(attribution: Attribution, scores: ScoreMap | None) -> Tensor:
    """[units] scores as numbers in [0, 1]: sigmoid for signed ones and min-max for others, unless said."""
    given = torch.as_tensor(np.asarray(attribution.scores, dtype=np.float64))
    chosen = scores or ("sigmoid" if attribution.signed else "min_max")
    if chosen == "sigmoid":
        mapped = given.sigmoid()
    elif chosen == "softmax":
        mapped = given.softmax(-1)
    elif chosen == "rank":
        # The lowest of n ranks gets 1/n, the highest 1; equal scores share their mean rank.
        below = (given[None, :] < given[:, None]).sum(1)
        equal = (given[None, :] == given[:, None]).sum(1)
        mapped = (below + (equal + 1) / 2) / len(given)
    else:
        spread = given.max() - given.min()
        # All scores equal say nothing about who matters: half of everything stays.
        mapped = (given - given.min()) / spread if spread > 0 else torch.full_like(given, 0.5)
    return mapped.float()
